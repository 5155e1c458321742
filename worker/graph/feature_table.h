// The features of a graph's nodes behind one interface: how rows reach the memory that a model
// reads. Every kind of access gives the same bytes: each element is read once and written once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  kHost,      // In host memory; the processor gathers.
  kZeroCopy,  // In host memory that the device reads.
  kMapped     // The file's mapping; the processor gathers. It may be larger than the memory.
};

// "device", "host", "zero_copy", "mapped".
absl::string_view NameOf(FeatureAccess access);

// A table that the processor gathers from. Not thread-safe, but several tables may share what they
// were made from.
class FeatureTable {
 public:
  virtual ~FeatureTable() = default;

  virtual FeatureAccess access() const = 0;
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Row i of `out` becomes row ids[i]. INVALID_ARGUMENT: an id is not a row; nothing was read.
  // DATA_LOSS: the file was cut or changed.
  absl::Status Gather(absl::Span<const int64_t> ids, float* out);

 protected:
  FeatureTable(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  virtual absl::Status GatherInRange(absl::Span<const int64_t> ids, float* out) = 0;
  int64_t row_bytes() const { return columns_ * static_cast<int64_t>(sizeof(float)); }

 private:
  int64_t rows_, columns_;
};

// The rows in host memory. Immutable, so thread-safe.
class HostRows {
 public:
  // A copy in anonymous memory, in large pages where the system has them, read with the team, which
  // may be null. RESOURCE_EXHAUSTED: there is not enough memory. DATA_LOSS: the file was cut or
  // changed.
  static absl::StatusOr<std::shared_ptr<HostRows>> Copy(const GraphFolder& folder,
                                                        ThreadTeam* team);
  // The folder's mapping, all of which is read first: the processes of a machine share one copy of
  // it, in the system's page cache. `folder` is kept. DATA_LOSS: the file was cut or changed, then
  // or until the folder's next Check.
  static absl::StatusOr<std::shared_ptr<HostRows>> Share(std::shared_ptr<const GraphFolder> folder,
                                                         ThreadTeam* team);
  ~HostRows();
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;

  const float* data() const { return data_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return rows_ * columns_ * static_cast<int64_t>(sizeof(float)); }
  bool shared() const { return folder_ != nullptr; }

 private:
  HostRows(const float* data, int64_t rows, int64_t columns)
      : data_(data), rows_(rows), columns_(columns) {}

  const float* data_;
  int64_t rows_, columns_;
  // Null: the memory is this object's.
  std::shared_ptr<const GraphFolder> folder_;
};

// `team` may be null, and outlives the table, as the folder does.
std::unique_ptr<FeatureTable> MakeMappedTable(const GraphFolder* folder, ThreadTeam* team);
std::unique_ptr<FeatureTable> MakeHostTable(std::shared_ptr<const HostRows> rows, ThreadTeam* team);

// A table that a kernel of the device gathers from. Thread-safe.
class KernelTable {
 public:
  // The device reads host memory. FAILED_PRECONDITION: it cannot be registered; the message says
  // why. Takes about as long as a copy of it.
  static absl::StatusOr<std::unique_ptr<KernelTable>> ZeroCopy(std::shared_ptr<const HostRows> rows,
                                                               const GatherKernels* kernels);
  // `table`: all rows in the device's memory, which outlives the object.
  static std::unique_ptr<KernelTable> OnDevice(const float* table, int64_t rows, int64_t columns,
                                               const GatherKernels* kernels);
  // Unregisters; no gather may be under way.
  ~KernelTable();
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;

  FeatureAccess access() const {
    return host_ == nullptr ? FeatureAccess::kDevice : FeatureAccess::kZeroCopy;
  }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Row places[i] of `out`, or row i if there are no places, becomes row ids[i]. All is memory that
  // kernels reach, and valid until the kernel has run on `stream`, a cudaStream_t. The ids are in
  // range, and should ascend (RowOrder). INTERNAL: the device.
  absl::Status Gather(const int64_t* ids, const int32_t* places, int64_t count, float* out,
                      void* stream) const;

 private:
  KernelTable(const void* table, int64_t rows, int64_t columns, const GatherKernels* kernels)
      : table_(table), rows_(rows), columns_(columns), kernels_(kernels) {}

  const void* table_;
  const int64_t rows_, columns_;
  const GatherKernels* const kernels_;
  std::shared_ptr<const HostRows> host_;
};

// Ids in ascending order, which share lines and pages of a table, and the place of each in the
// order that was given.
struct RowOrder {
  std::vector<int64_t> ids;
  // Empty: they ascended already.
  std::vector<int32_t> places;
};
// INVALID_ARGUMENT: an id is not one of `rows` rows, or there are 2^31 ids. Pure.
absl::StatusOr<RowOrder> AscendingRows(absl::Span<const int64_t> ids, int64_t rows);

}  // namespace longhaul
