// How rows of features reach the device that computes: the paths of FeatureAccess, which all give
// the same bytes, and rows that are kept there.
#pragma once

#include <cstdint>
#include <memory>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "c10/core/Device.h"
#include "common/graph/graph_folder.h"
#include "worker/graph/feature_table.h"

namespace longhaul {

// Not thread-safe.
class DeviceFeatures {
 public:
  virtual ~DeviceFeatures() = default;
  virtual FeatureAccess access() const = 0;
  // Row i of the result, on the device, is row ids[i]. It is enqueued on the current stream; the
  // call waits for the processor's part only. INVALID_ARGUMENT: an id is not a row. DATA_LOSS: the
  // file was cut or changed. Throws as torch does.
  virtual absl::StatusOr<at::Tensor> Gather(absl::Span<const int64_t> ids) = 0;
};

// The processor gathers into pinned memory, which is then copied. `team`: what the table works
// with, which is kept.
std::unique_ptr<DeviceFeatures> MakeCopiedFeatures(std::unique_ptr<FeatureTable> table,
                                                   std::shared_ptr<ThreadTeam> team,
                                                   c10::Device device);
// A kernel gathers. `rows`: what the table is in, if it is the device's memory.
std::unique_ptr<DeviceFeatures> MakeKernelFeatures(std::unique_ptr<KernelTable> table,
                                                   at::Tensor rows, c10::Device device);
// All rows in the device's memory. Throws as torch does, also where they do not fit.
absl::StatusOr<std::unique_ptr<DeviceFeatures>> MakeDeviceTable(const GraphFolder& folder,
                                                                const GatherKernels* kernels,
                                                                c10::Device device);
// Keeps the rows in the device's memory that most edges read, as many as fit in `bytes`; `others`
// brings the rest. It takes 4 bytes of host memory for each row. DATA_LOSS: as Gather. Throws as
// torch does.
absl::StatusOr<std::unique_ptr<DeviceFeatures>> MakeCachedFeatures(
    const GraphFolder& folder, int64_t bytes, std::unique_ptr<DeviceFeatures> others,
    c10::Device device);

}  // namespace longhaul
