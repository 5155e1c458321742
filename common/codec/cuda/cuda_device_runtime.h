// The DeviceRuntime of CUDA. It is part of the shared module longhaul_cuda_codec, which is loaded
// only if there is a device (cuda_codec_module.h). Nothing else of the program refers to it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/codec/cuda/device_runtime.h"

namespace longhaul {

// For training on the device's default stream. FAILED_PRECONDITION: no CUDA driver or device.
// RESOURCE_EXHAUSTED, INTERNAL.
absl::StatusOr<std::shared_ptr<DeviceRuntime>> MakeCudaDeviceRuntime(int device);

}  // namespace longhaul

// The only symbol of this file that is looked up in the module.
extern "C" {
using LonghaulMakeCudaRuntime =
    absl::StatusOr<std::shared_ptr<longhaul::DeviceRuntime>>(int device);
}
inline constexpr char kLonghaulMakeCudaRuntime[] = "longhaul_make_cuda_runtime";
