#include "tests/testing/emulated_cudart.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "cuda_runtime_api.h"
#include "tests/testing/emulated_streams.h"
#include "tests/testing/rank_order_sum_cuda.h"
#include "worker/collective/rank_order_sum.h"

struct CUevent_st {
  // Null: it was never recorded.
  longhaul::DeviceStreams::EventPtr reached;
};

namespace longhaul {
namespace {

std::atomic<int> calls_until_failure = -1;

// Whether this call is the one that fails.
bool FailsNow() { return calls_until_failure >= 0 && calls_until_failure-- == 0; }

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Failed(cudaError_t error) { return last_error = error; }

// Never destroyed, since streams may be used until the process ends.
class EmulatedCudart {
 public:
  static EmulatedCudart& Get() {
    static auto& cudart = *new EmulatedCudart;
    return cudart;
  }

  EmulatedStreams& streams() { return streams_; }
  cudaStream_t NewStream() {
    const std::shared_ptr<void> stream = streams_.NewStream().value();
    absl::MutexLock lock(&mutex_);
    made_.push_back(stream);
    return static_cast<cudaStream_t>(stream.get());
  }
  void* StreamOf(cudaStream_t stream) {
    return stream == nullptr ? default_.get() : static_cast<void*>(stream);
  }
  cudaError_t Synchronize(void* stream) {
    const auto event = streams_.Record(stream);
    return streams_.Wait(*event, absl::InfiniteFuture()).ok() ? cudaSuccess
                                                              : cudaErrorLaunchFailure;
  }
  void SynchronizeAll() {
    std::vector<std::shared_ptr<void>> all;
    {
      absl::MutexLock lock(&mutex_);
      all = made_;
    }
    for (const auto& stream : all) (void)Synchronize(stream.get());
    (void)Synchronize(default_.get());
  }

  cudaError_t Allocate(void** memory, size_t bytes, bool on_host) {
    if (bytes > static_cast<size_t>(testing_support::kEmulatedBytesMax))
      return Failed(cudaErrorMemoryAllocation);
    *memory = ::operator new (bytes, std::align_val_t{256});
    std::memset(*memory, 0xA5, bytes);
    if (!on_host) return cudaSuccess;
    absl::MutexLock lock(&mutex_);
    on_host_.insert(*memory);
    return cudaSuccess;
  }
  void Free(void* memory) {
    SynchronizeAll();
    {
      absl::MutexLock lock(&mutex_);
      on_host_.erase(memory);
    }
    ::operator delete (memory, std::align_val_t{256});
  }
  bool IsOnHost(void* memory) {
    absl::MutexLock lock(&mutex_);
    return on_host_.contains(memory);
  }

  void Record(cudaEvent_t event, void* stream) {
    auto reached = streams_.Record(stream).value();
    absl::MutexLock lock(&mutex_);
    event->reached = std::move(reached);
  }
  DeviceStreams::EventPtr ReachedBy(cudaEvent_t event) {
    absl::MutexLock lock(&mutex_);
    return event->reached;
  }

 private:
  EmulatedStreams streams_{7};
  const std::shared_ptr<void> default_ = streams_.NewStream().value();
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<void>> made_ ABSL_GUARDED_BY(mutex_);
  std::set<void*> on_host_ ABSL_GUARDED_BY(mutex_);
};

EmulatedCudart& Cudart() { return EmulatedCudart::Get(); }

template <typename T>
cudaError_t SumOn(const CudaSumSources<T>& sources, T* output, int64_t count, cudaStream_t stream) {
  if (FailsNow()) return Failed(cudaErrorMemoryAllocation);
  Cudart().streams().Submit(Cudart().StreamOf(stream), [sources, output, count] {
    RankOrderSum<T>({sources.first, static_cast<size_t>(sources.count)}, output, count);
  });
  return cudaSuccess;
}

}  // namespace

void testing_support::FailEmulatedCudaAfter(int calls) { calls_until_failure = calls; }

cudaError_t LaunchRankOrderSum(const CudaSumSources<float>& sources, float* output, int64_t count,
                               cudaStream_t stream) {
  return SumOn(sources, output, count, stream);
}
cudaError_t LaunchRankOrderSum(const CudaSumSources<double>& sources, double* output, int64_t count,
                               cudaStream_t stream) {
  return SumOn(sources, output, count, stream);
}

}  // namespace longhaul

// NOLINTBEGIN: CUDA's names.
using longhaul::Cudart;
using longhaul::Failed;
using longhaul::FailsNow;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetLastError() { return std::exchange(longhaul::last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the emulation";
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return Cudart().Allocate(memory, bytes, /*on_host=*/false);
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  return Cudart().Allocate(memory, bytes, /*on_host=*/true);
}
cudaError_t cudaFree(void* memory) {
  if (memory != nullptr) Cudart().Free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (Cudart().IsOnHost(memory)) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
  }
  Cudart().streams().Submit(Cudart().StreamOf(nullptr), [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (FailsNow()) return Failed(cudaErrorMemoryAllocation);
  (void)Cudart().streams().Copy(Cudart().StreamOf(stream), to, from, static_cast<int64_t>(bytes));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = Cudart().NewStream();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  // What is queued on it still runs.
  return Cudart().Synchronize(Cudart().StreamOf(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Cudart().Synchronize(Cudart().StreamOf(stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  (void)Cudart().streams().Block(Cudart().StreamOf(stream), Cudart().ReachedBy(event));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (FailsNow()) return Failed(cudaErrorMemoryAllocation);
  Cudart().Record(event, Cudart().StreamOf(stream));
  return cudaSuccess;
}
// The first query comes too early; then the works run that lead to the event.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto reached = Cudart().ReachedBy(event);
  if (Cudart().streams().Done(reached)) return cudaSuccess;
  const absl::Status status = Cudart().streams().Wait(reached, longhaul::SteadyTime());
  return Failed(status.ok() || absl::IsDeadlineExceeded(status) ? cudaErrorNotReady
                                                                : cudaErrorLaunchFailure);
}

}  // extern "C"
// NOLINTEND
