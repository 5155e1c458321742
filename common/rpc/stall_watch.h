// Notices that the peer of a bulk stream makes no progress. Only for the reactors of
// fragment_server.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"

namespace longhaul {

// How long one message of a stream may take: `pause_max`, and the time for its bytes at `pace_min`.
// The second part is needed since a message is seen only when it is complete, and a large one may
// take longer than the pause.
struct StallLimits {
  absl::Duration pause_max = absl::Seconds(30);
  // Bytes a second. Slower streams are ended.
  int64_t pace_min = 16 << 10;
};

// DEADLINE_EXCEEDED, "no progress", with ErrorInfo NO_PROGRESS and RetryInfo. What came is kept, so
// the peer may continue with another stream.
absl::Status StalledError(const StallLimits& limits);

// Thread-safe; never blocks. Its stream holds it, and must call Stop.
class StallWatch : public std::enable_shared_from_this<StallWatch> {
 public:
  explicit StallWatch(const StallLimits& limits) : limits_(limits) {}

  // `on_stall` is called at most once, on a thread of gRPC. It must keep alive everything that it
  // needs, since it may still run when Stop returns.
  void Start(std::function<void()> on_stall);
  // From now on the peer must send or take a message of this size.
  void Expect(int64_t bytes);
  // The peer did so; or now it is our turn.
  void Pause();
  // The stream has ended.
  void Stop();

 private:
  void Arm(absl::Time at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ring();

  const StallLimits limits_;
  absl::Mutex mutex_;
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // If it rings too early it is set again. So progress does not need to change the alarm.
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  // Null when stopped.
  std::function<void()> on_stall_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
