#include "common/codec/cuda/cuda_codec_module.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/codec/cuda/cuda_segment_kernels.h"
#include "common/device/cuda_module.h"

namespace longhaul {

absl::StatusOr<std::shared_ptr<DeviceCodec>> LoadCudaCodec(int device, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* make,
                      LoadCudaFunction("longhaul_cuda_codec", kLonghaulMakeCudaRuntime, folder));
  LH_ASSIGN_OR_RETURN(std::shared_ptr<DeviceRuntime> runtime,
                      reinterpret_cast<LonghaulMakeCudaRuntime*>(make)(device));
  return std::make_shared<DeviceCodec>(std::move(runtime));
}

absl::StatusOr<const SegmentKernels*> LoadCudaSegmentKernels(const std::string& folder) {
  LH_ASSIGN_OR_RETURN(void* get,
                      LoadCudaFunction("longhaul_cuda_codec", kLonghaulCudaSegmentKernels, folder));
  return reinterpret_cast<LonghaulCudaSegmentKernels*>(get)();
}

}  // namespace longhaul
