// Notices that the peer of a bulk stream stands still. For fragment_server.h's reactors alone.
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

// How long a message of a stream may take: `pause_max`, and what its bytes take at `pace_min` (a
// message is seen when it is whole, so one that is large may come for longer than the pause).
struct StallLimits {
  absl::Duration pause_max = absl::Seconds(30);
  int64_t pace_min = 16 << 10;  // Bytes a second. Slower streams are ended.
};

// DEADLINE_EXCEEDED, "no progress", with ErrorInfo NO_PROGRESS and RetryInfo: what came stays, so
// the peer may go on with another stream.
absl::Status StalledError(const StallLimits& limits);

// Thread-safe; never blocks. Held by its stream, which must call Stop.
class StallWatch : public std::enable_shared_from_this<StallWatch> {
 public:
  explicit StallWatch(const StallLimits& limits) : limits_(limits) {}

  // `on_stall` is called at most once, on a thread of gRPC, and keeps alive what it needs: it may
  // still run when Stop returns.
  void Start(std::function<void()> on_stall);
  // From now on the peer is waited for, to send or take a message of this size.
  void Expect(int64_t bytes);
  // It has; or it is our turn.
  void Pause();
  // The stream has ended.
  void Stop();

 private:
  void Arm(absl::Time at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ring();

  const StallLimits limits_;
  absl::Mutex mutex_;
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // Set again when it rings too early, so that progress costs no alarm.
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_stall_ ABSL_GUARDED_BY(mutex_);  // Null: stopped.
};

}  // namespace longhaul
