#include "worker/movement/cuda/cuda_movement.h"

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/device/cuda_memory.h"
#include "common/device/cuda_status.h"
#include "cuda_runtime_api.h"
#include "worker/movement/late_device.h"

namespace longhaul {
namespace {

constexpr absl::Duration kPoll = absl::Microseconds(50);

class CudaMovement : public Movement {
 public:
  explicit CudaMovement(const CudaMovementOptions& options) : options_(options) {
    streams_[kComputeQueue] = static_cast<cudaStream_t>(options.compute_stream);
    streams_[kCallerQueue] = static_cast<cudaStream_t>(options.caller_stream);
  }
  ~CudaMovement() override {
    cudaSetDevice(options_.device);
    for (int queue = 0; queue < kQueues; ++queue) {
      if (!own_[queue]) continue;
      cudaStreamSynchronize(streams_[queue]);
      cudaStreamDestroy(streams_[queue]);
    }
    for (const std::deque<Ended>& queue : events_) {
      for (const Ended& ended : queue) cudaEventDestroy(ended.event);
    }
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
  }

  absl::Status Start() {
    LH_RETURN_IF_ERROR(OnDevice());
    for (int queue = 0; queue < kCallerQueue; ++queue) {
      if (streams_[queue] != nullptr) continue;
      LH_RETURN_IF_ERROR(CudaStatus(
          cudaStreamCreateWithFlags(&streams_[queue], cudaStreamNonBlocking), "cudaStreamCreate"));
      own_[queue] = true;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(MemorySide side, int64_t bytes,
                                                      absl::string_view what) override {
    const bool host = side == MemorySide::kHost;
    const absl::StatusOr<void*> memory = AllocateCudaMemory(options_.device, host, bytes);
    if (!memory.ok()) return WithContext(what, memory.status());
    std::shared_ptr<std::byte> result(
        static_cast<std::byte*>(*memory),
        [host, device = options_.device](void* freed) { FreeCudaMemory(device, host, freed); });
    LH_RETURN_IF_ERROR(CudaStatus(cudaMemset(*memory, 0, bytes), "cudaMemset"));
    // On the device cudaMemset only enqueues on the default stream, for which the queues do not
    // wait.
    if (!host)
      LH_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"));
    return result;
  }

  absl::StatusOr<MoveToken> Fork() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(OnDevice());
    const MoveToken token{kCallerQueue, ++forks_};
    LH_RETURN_IF_ERROR(Record(token));
    return token;
  }
  absl::Status Join(const MoveToken& token) override ABSL_LOCKS_EXCLUDED(mutex_) {
    LH_RETURN_IF_ERROR(error());
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(OnDevice());
    return Follow(streams_[kCallerQueue], token);
  }

  bool Done(const MoveToken& token) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (const absl::Status status = OnDevice(); !status.ok()) {
      Fail(status);
      return true;
    }
    return IsDone(token);
  }
  // Polls with sleeps: the runtime has no wait with a deadline that leaves the core to others.
  absl::Status Wait(const MoveToken& token, absl::string_view what) override {
    const absl::Duration timeout = options_.timeout.now();
    const absl::Time deadline = SteadyTime() + timeout;
    while (!Done(token)) {
      if (SteadyTime() > deadline) return LateDeviceError(what, timeout);
      absl::SleepFor(kPoll);
    }
    return error();
  }

 private:
  struct Ended {
    int64_t number;
    cudaEvent_t event;
  };

  absl::Status Enqueue(const MoveToken& token, Work work) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(OnDevice());
    const cudaStream_t stream = streams_[token.queue];
    for (const MoveToken& before : work.after) LH_RETURN_IF_ERROR(Follow(stream, before));
    if (work.run) {
      LH_RETURN_IF_ERROR(work.run(stream));
    } else if (work.bytes > 0) {
      LH_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(work.writes[0].buffer->memory().data(),
                                                    work.reads[0].buffer->memory().data(),
                                                    work.bytes, cudaMemcpyDefault, stream),
                                    work.name));
    }
    for (const Use& use : work.writes) SetPresent(use);
    return Record(token);
  }

  absl::Status OnDevice() const { return UseCudaDevice(options_.device); }

  absl::Status Record(const MoveToken& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Frees the events of works that have ended.
    IsDone(token);
    cudaEvent_t event = nullptr;
    if (free_.empty()) {
      LH_RETURN_IF_ERROR(
          CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    } else {
      event = free_.back();
      free_.pop_back();
    }
    events_[token.queue].push_back({token.number, event});
    return CudaStatus(cudaEventRecord(event, streams_[token.queue]), "cudaEventRecord");
  }

  absl::Status Follow(cudaStream_t stream, const MoveToken& token)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Done: otherwise the loop would find the next work of that queue.
    if (token.number <= done_[token.queue]) return absl::OkStatus();
    for (const Ended& ended : events_[token.queue]) {
      if (ended.number < token.number) continue;
      return CudaStatus(cudaStreamWaitEvent(stream, ended.event, 0), "cudaStreamWaitEvent");
    }
    return absl::OkStatus();
  }

  bool IsDone(const MoveToken& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::deque<Ended>& queue = events_[token.queue];
    while (!queue.empty()) {
      const cudaError_t error = QueryCudaEvent(queue.front().event);
      if (error == cudaErrorNotReady) break;
      if (error != cudaSuccess) {
        Fail(CudaStatus(error, "cudaEventQuery"));
        return true;
      }
      done_[token.queue] = queue.front().number;
      free_.push_back(queue.front().event);
      queue.pop_front();
    }
    return done_[token.queue] >= token.number;
  }

  const CudaMovementOptions options_;
  std::array<cudaStream_t, kQueues> streams_ = {};
  std::array<bool, kQueues> own_ = {};
  absl::Mutex mutex_;
  std::array<std::deque<Ended>, kQueues> events_ ABSL_GUARDED_BY(mutex_);
  std::array<int64_t, kQueues> done_ ABSL_GUARDED_BY(mutex_) = {};
  std::vector<cudaEvent_t> free_ ABSL_GUARDED_BY(mutex_);
  int64_t forks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Movement>> MakeCudaMovement(const CudaMovementOptions& options) {
  LH_RETURN_IF_ERROR(CheckCudaDevice(options.device));
  auto movement = std::make_shared<CudaMovement>(options);
  LH_RETURN_IF_ERROR(movement->Start());
  return movement;
}

}  // namespace longhaul

extern "C" __attribute__((visibility("default")))
absl::StatusOr<std::shared_ptr<longhaul::Movement>>
longhaul_make_cuda_movement(const longhaul::CudaMovementOptions& options) {
  return longhaul::MakeCudaMovement(options);
}
