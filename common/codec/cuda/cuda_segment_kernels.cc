// The SegmentKernels of CUDA: part of the module longhaul_cuda_codec.
#include "common/codec/cuda/cuda_segment_kernels.h"

#include "common/codec/cuda/kernel_launch.h"
#include "common/device/cuda_status.h"
#include "cuda_runtime_api.h"

namespace longhaul {
namespace {

class CudaSegmentKernels : public SegmentKernels {
 public:
  absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                      cuda::EncodeReport* reports, int count, void* stream) const override {
    return CudaStatus(
        cuda::LaunchEncode(options, jobs, reports, count, static_cast<cudaStream_t>(stream)),
        "encoding");
  }
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count,
                      void* stream) const override {
    return CudaStatus(cuda::LaunchDecode(kind, jobs, count, 1, /*accumulate=*/false,
                                         static_cast<cudaStream_t>(stream)),
                      "decoding");
  }
  absl::Status Reduce(CodecKind kind, const cuda::ReduceJob* jobs, cuda::EncodeReport* reports,
                      int count, void* stream) const override {
    return CudaStatus(
        cuda::LaunchReduce(kind, jobs, reports, count, 1, static_cast<cudaStream_t>(stream)),
        "reducing");
  }
};

}  // namespace
}  // namespace longhaul

extern "C" __attribute__((visibility("default"))) const longhaul::SegmentKernels*
longhaul_cuda_segment_kernels() {
  static const longhaul::CudaSegmentKernels kernels;
  return &kernels;
}
