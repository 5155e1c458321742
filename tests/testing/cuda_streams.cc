#include "tests/testing/cuda_streams.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "cuda_runtime_api.h"
#include "tests/testing/rank_order_sum_cuda.h"
#include "worker/collective/collective_cuda_status.h"

namespace longhaul {
namespace {

constexpr absl::Duration kEventPoll = absl::Microseconds(20);
static_assert(kCudaSumSourcesMax >= DeviceStreams::kSourcesMax);

class CudaEvent : public DeviceStreams::Event {
 public:
  ~CudaEvent() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  absl::Status Record(cudaStream_t stream) {
    LH_RETURN_IF_ERROR(CollectiveCudaStatus(
        cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"));
    return CollectiveCudaStatus(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t EventOf(const DeviceStreams::EventPtr& event) {
  return static_cast<const CudaEvent&>(*event).event();
}

class CudaStreams : public DeviceStreams {
 public:
  explicit CudaStreams(int device) : device_(device) {}

  absl::StatusOr<std::shared_ptr<void>> NewStream() override {
    LH_RETURN_IF_ERROR(OnDevice());
    cudaStream_t stream = nullptr;
    LH_RETURN_IF_ERROR(CollectiveCudaStatus(
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    return std::shared_ptr<void>(stream, [](void* made) { cudaStreamDestroy(StreamOf(made)); });
  }

  absl::StatusOr<EventPtr> Record(void* stream) override {
    LH_RETURN_IF_ERROR(OnDevice());
    auto event = std::make_shared<CudaEvent>();
    LH_RETURN_IF_ERROR(event->Record(StreamOf(stream)));
    return event;
  }

  absl::Status Block(void* stream, const EventPtr& event) override {
    if (event == nullptr) return absl::OkStatus();
    return CollectiveCudaStatus(cudaStreamWaitEvent(StreamOf(stream), EventOf(event), 0),
                                "cudaStreamWaitEvent");
  }

  absl::Status Copy(void* stream, void* to, const void* from, int64_t bytes) override {
    return CollectiveCudaStatus(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(stream)), "cudaMemcpyAsync");
  }

  absl::Status Sum(void* stream, absl::Span<const float* const> sources, float* output,
                   int64_t count) override {
    return SumOf<float>(stream, sources, output, count);
  }
  absl::Status Sum(void* stream, absl::Span<const double* const> sources, double* output,
                   int64_t count) override {
    return SumOf<double>(stream, sources, output, count);
  }

  absl::Status Wait(const EventPtr& event, absl::Time deadline) override {
    if (event == nullptr) return absl::OkStatus();
    while (true) {
      const cudaError_t error = QueryCudaEvent(EventOf(event));
      if (error != cudaErrorNotReady) return CollectiveCudaStatus(error, "cudaEventQuery");
      if (SteadyTime() >= deadline)
        return absl::DeadlineExceededError("the device has not come so far");
      absl::SleepFor(kEventPoll);
    }
  }

 private:
  // The current device is a setting of each thread.
  absl::Status OnDevice() const {
    return CollectiveCudaStatus(cudaSetDevice(device_), "cudaSetDevice");
  }

  template <typename T>
  static absl::Status SumOf(void* stream, absl::Span<const T* const> sources, T* output,
                            int64_t count) {
    CudaSumSources<T> all{.count = static_cast<int>(sources.size())};
    std::copy(sources.begin(), sources.end(), all.first);
    return CollectiveCudaStatus(LaunchRankOrderSum(all, output, count, StreamOf(stream)),
                                "a sum of ranks");
  }

  const int device_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceStreams>> MakeCudaStreams(int device) {
  LH_RETURN_IF_ERROR(CheckCudaDevice(device));
  return std::make_shared<CudaStreams>(device);
}

}  // namespace longhaul

extern "C" __attribute__((visibility("default")))
absl::StatusOr<std::shared_ptr<longhaul::DeviceStreams>>
longhaul_make_cuda_streams(int device) {
  return longhaul::MakeCudaStreams(device);
}
