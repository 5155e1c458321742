// The DeviceStreams of a CUDA device. It is the shared module longhaul_test_cuda_streams, which is
// loaded only if there is a device. Nothing else of a test refers to it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_module.h"
#include "tests/testing/device_streams.h"

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

namespace longhaul {

// MakeCudaStreams of the module, with its errors and those of LoadCudaFunction.
inline absl::StatusOr<std::shared_ptr<DeviceStreams>> LoadCudaStreams(int device) {
  LH_ASSIGN_OR_RETURN(void* make,
                      LoadCudaFunction("longhaul_test_cuda_streams", kLonghaulMakeCudaStreams, ""));
  return reinterpret_cast<LonghaulMakeCudaStreams*>(make)(device);
}

}  // namespace longhaul
