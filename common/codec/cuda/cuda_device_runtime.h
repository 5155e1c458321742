// The DeviceRuntime of CUDA. It is part of the shared module longhaul_cuda_codec, which is loaded
// only if there is a device (cuda_codec_module.h). Nothing else of the program refers to it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/codec/cuda/device_runtime.h"

namespace longhaul {

struct CudaRuntimeOptions {
  int device = 0;
  // The cudaStream_t on which training runs. Null: the default stream.
  void* training_stream = nullptr;
};

// FAILED_PRECONDITION: no CUDA driver or device. RESOURCE_EXHAUSTED, INTERNAL.
absl::StatusOr<std::shared_ptr<DeviceRuntime>> MakeCudaDeviceRuntime(
    const CudaRuntimeOptions& options);

}  // namespace longhaul

// The only symbol of this file that is looked up in the module.
extern "C" {
using LonghaulMakeCudaRuntime =
    absl::StatusOr<std::shared_ptr<longhaul::DeviceRuntime>>(const longhaul::CudaRuntimeOptions&);
}
inline constexpr char kLonghaulMakeCudaRuntime[] = "longhaul_make_cuda_runtime";
