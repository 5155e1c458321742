#include "common/codec/cuda/cuda_device_runtime.h"

#include "common/base/status_macros.h"
#include "common/codec/cuda/kernel_launch.h"
#include "common/device/cuda_memory.h"
#include "common/device/cuda_status.h"
#include "cuda_runtime_api.h"

namespace longhaul {
namespace {

class CudaDeviceRuntime : public DeviceRuntime {
 public:
  explicit CudaDeviceRuntime(int device) : device_(device) {}
  ~CudaDeviceRuntime() override {
    cudaSetDevice(device_);
    if (followed_ != nullptr) cudaEventDestroy(followed_);
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (codec_ != nullptr) cudaStreamDestroy(codec_);
  }

  absl::Status Start() {
    LH_RETURN_IF_ERROR(OnDevice());
    int least = 0, greatest = 0;
    LH_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                  "cudaDeviceGetStreamPriorityRange"));
    // Non-blocking, so that the default stream, which training uses, does not wait for it.
    LH_RETURN_IF_ERROR(
        CudaStatus(cudaStreamCreateWithPriority(&codec_, cudaStreamNonBlocking, least),
                   "cudaStreamCreateWithPriority"));
    LH_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&followed_, cudaEventDisableTiming),
                                  "cudaEventCreate"));
    return CudaStatus(
        cudaEventCreateWithFlags(&done_, cudaEventDisableTiming | cudaEventBlockingSync),
        "cudaEventCreate");
  }

  absl::StatusOr<void*> Allocate(Memory kind, int64_t bytes) override {
    return AllocateCudaMemory(device_, kind == Memory::kPinnedHost, bytes);
  }
  void Free(Memory kind, void* memory) override {
    FreeCudaMemory(device_, kind == Memory::kPinnedHost, memory);
  }

  absl::Status Copy(Queue queue, void* to, const void* from, int64_t bytes) override {
    LH_RETURN_IF_ERROR(OnDevice());
    return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(queue)),
                      "cudaMemcpyAsync");
  }
  absl::Status Zero(Queue queue, void* to, int64_t bytes) override {
    LH_RETURN_IF_ERROR(OnDevice());
    return CudaStatus(cudaMemsetAsync(to, 0, bytes, StreamOf(queue)), "cudaMemsetAsync");
  }
  absl::Status FollowTraining() override {
    LH_RETURN_IF_ERROR(OnDevice());
    LH_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(followed_, kTraining), "cudaEventRecord"));
    return CudaStatus(cudaStreamWaitEvent(codec_, followed_, 0), "cudaStreamWaitEvent");
  }

  absl::Status Encode(const CodecOptions& options, const cuda::EncodeJob* jobs,
                      cuda::EncodeReport* reports, int count) override {
    LH_RETURN_IF_ERROR(OnDevice());
    return CudaStatus(cuda::LaunchEncode(options, jobs, reports, count, codec_), "encoding");
  }
  absl::Status Decode(CodecKind kind, const cuda::DecodeJob* jobs, int count, float weight,
                      bool accumulate) override {
    LH_RETURN_IF_ERROR(OnDevice());
    return CudaStatus(cuda::LaunchDecode(kind, jobs, count, weight, accumulate, codec_),
                      "decoding");
  }

  absl::Status Wait() override {
    LH_RETURN_IF_ERROR(OnDevice());
    LH_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done_, codec_), "cudaEventRecord"));
    return CudaStatus(cudaEventSynchronize(done_), "cudaEventSynchronize");
  }

 private:
  absl::Status OnDevice() const { return UseCudaDevice(device_); }
  cudaStream_t StreamOf(Queue queue) const {
    return queue == Queue::kTraining ? kTraining : codec_;
  }

  const int device_;
  // The default stream.
  static constexpr cudaStream_t kTraining = nullptr;
  cudaStream_t codec_ = nullptr;
  cudaEvent_t followed_ = nullptr, done_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceRuntime>> MakeCudaDeviceRuntime(int device) {
  LH_RETURN_IF_ERROR(CheckCudaDevice(device));
  auto runtime = std::make_shared<CudaDeviceRuntime>(device);
  LH_RETURN_IF_ERROR(runtime->Start());
  return runtime;
}

}  // namespace longhaul

extern "C" __attribute__((visibility("default")))
absl::StatusOr<std::shared_ptr<longhaul::DeviceRuntime>>
longhaul_make_cuda_runtime(int device) {
  return longhaul::MakeCudaDeviceRuntime(device);
}
