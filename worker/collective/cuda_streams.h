// The DeviceStreams of a CUDA device. It is part of the shared module longhaul_cuda_collective,
// which is loaded only if there is a device (LoadCudaStreams of cuda_module.h). Nothing else of the
// program refers to it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/collective/device_streams.h"

namespace longhaul {

// FAILED_PRECONDITION: no CUDA driver or device.
absl::StatusOr<std::shared_ptr<DeviceStreams>> MakeCudaStreams(int device);

}  // namespace longhaul

// The only symbol of this file that is looked up in the module.
extern "C" {
using LonghaulMakeCudaStreams =
    absl::StatusOr<std::shared_ptr<longhaul::DeviceStreams>>(int device);
}
inline constexpr char kLonghaulMakeCudaStreams[] = "longhaul_make_cuda_streams";
