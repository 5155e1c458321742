// The features of a graph's nodes behind one interface: how rows reach the memory that a model
// reads. Every kind of access gives the same bytes: each element is read once and written once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/thread_team.h"
#include "common/graph/graph_folder.h"
#include "worker/graph/cuda/gather_kernels.h"

namespace longhaul {

enum class FeatureAccess {
  kDevice,    // A copy of the table in the device's memory.
  kHost,      // A copy in host memory; the processor gathers.
  kZeroCopy,  // A copy in host memory that the device reads.
  kMapped     // The file's mapping; the processor gathers. It may be larger than the memory.
};

// "device", "host", "zero_copy", "mapped".
absl::string_view NameOf(FeatureAccess access);

// Not thread-safe, but several tables may share what they were made from.
class FeatureTable {
 public:
  virtual ~FeatureTable() = default;

  virtual FeatureAccess access() const = 0;
  // Whether Gather's `out` is memory of the device, and Gather only begins the work.
  bool on_device() const {
    return access() == FeatureAccess::kDevice || access() == FeatureAccess::kZeroCopy;
  }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Row i of `out` becomes row ids[i]. With on_device it is enqueued on `stream`, a cudaStream_t;
  // `out` is ready when the stream is, and the ids may change at once. No more than two such
  // gathers of a table may be under way. Otherwise the work is done on return, and `stream` is not
  // used. INVALID_ARGUMENT: an id is not a row; nothing was read. DATA_LOSS: the file was cut or
  // changed. INTERNAL: the device.
  absl::Status Gather(absl::Span<const int64_t> ids, float* out, void* stream = nullptr);

 protected:
  FeatureTable(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  virtual absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out, void* stream) = 0;
  int64_t row_bytes() const { return columns_ * static_cast<int64_t>(sizeof(float)); }

 private:
  int64_t rows_, columns_;
};

// The rows in anonymous host memory, in large pages where the system has them. Immutable after
// Copy, so thread-safe.
class HostRows {
 public:
  // Reads the folder's features with the team, which may be null. RESOURCE_EXHAUSTED: there is not
  // enough memory. DATA_LOSS: the file was cut or changed.
  static absl::StatusOr<std::shared_ptr<HostRows>> Copy(const GraphFolder& folder,
                                                        ThreadTeam* team);
  ~HostRows();
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;

  float* data() const { return data_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return rows_ * columns_ * static_cast<int64_t>(sizeof(float)); }

 private:
  HostRows(float* data, int64_t rows, int64_t columns)
      : data_(data), rows_(rows), columns_(columns) {}

  float* data_;
  int64_t rows_, columns_;
};

// `team` may be null, and outlives the table, as folder and kernels do.
std::unique_ptr<FeatureTable> MakeMappedTable(const GraphFolder* folder, ThreadTeam* team);
std::unique_ptr<FeatureTable> MakeHostTable(std::shared_ptr<HostRows> rows, ThreadTeam* team);

// Registers the rows, and a buffer for two times `ids_max` ids. Gathers of more ids are
// INVALID_ARGUMENT. FAILED_PRECONDITION: they cannot be registered; the message says why. The
// caller may then take MakeHostTable.
absl::StatusOr<std::unique_ptr<FeatureTable>> MakeZeroCopyTable(std::shared_ptr<HostRows> rows,
                                                                const GatherKernels* kernels,
                                                                int64_t ids_max);
// `device`: all rows in the device's memory, which outlives the table. Otherwise as
// MakeZeroCopyTable.
absl::StatusOr<std::unique_ptr<FeatureTable>> MakeDeviceTable(const float* device, int64_t rows,
                                                              int64_t columns,
                                                              const GatherKernels* kernels,
                                                              int64_t ids_max);

}  // namespace longhaul
