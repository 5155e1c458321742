#include "common/codec/cuda/kernel_launch.h"
#include "common/codec/cuda/kernel_table-inl.h"

namespace longhaul::cuda {
namespace {

template <typename Kernel>
cudaError_t Launch(Kernel kernel, int count, void** arguments, cudaStream_t stream) {
  if (kernel == nullptr) return cudaErrorInvalidValue;
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(count), dim3(kThreads),
                          arguments, 0, stream);
}

}  // namespace

cudaError_t LaunchEncode(const CodecOptions& options, const EncodeJob* jobs, EncodeReport* reports,
                         int count, cudaStream_t stream) {
  float decay = options.feedback_decay;
  void* arguments[] = {&jobs, &reports, &decay};
  return Launch(EncodeKernelOf(options), count, arguments, stream);
}

cudaError_t LaunchDecode(CodecKind kind, const DecodeJob* jobs, int count, float weight,
                         bool accumulate, cudaStream_t stream) {
  void* arguments[] = {&jobs, &weight, &accumulate};
  return Launch(DecodeKernelOf(kind), count, arguments, stream);
}

cudaError_t LaunchReduce(CodecKind kind, const ReduceJob* jobs, EncodeReport* reports, int count,
                         float decay, cudaStream_t stream) {
  void* arguments[] = {&jobs, &reports, &decay};
  return Launch(ReduceKernelOf(kind), count, arguments, stream);
}

}  // namespace longhaul::cuda
