// Loads the CUDA part of the codecs at run time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/codec/cuda/cuda_device_runtime.h"
#include "common/codec/cuda/device_codec.h"

namespace longhaul {

// A DeviceCodec on MakeCudaDeviceRuntime of the module longhaul_cuda_codec. `folder`: see
// LoadCudaFunction. FAILED_PRECONDITION: no device ("no CUDA device ..."), or no such module.
// Others: as MakeCudaDeviceRuntime.
absl::StatusOr<std::shared_ptr<DeviceCodec>> LoadCudaCodec(int device,
                                                           const std::string& folder = "");

}  // namespace longhaul
