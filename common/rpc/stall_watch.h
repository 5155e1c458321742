// Notices that the peer of a bulk stream makes no progress. Only for the reactors of
// fragment_server.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"

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
  // The peer did so; or now it is our turn. False: `on_stall` was called before, or is being
  // called. If it is true, `on_stall` is not called before the next Expect.
  bool Pause();
  // The stream has ended.
  void Stop();

 private:
  void Arm(absl::Duration wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ring();

  const StallLimits limits_;
  absl::Mutex mutex_;
  absl::Time due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  // If it rings too early it is set again. So progress does not need to change the alarm.
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  // Null when stopped.
  std::function<void()> on_stall_ ABSL_GUARDED_BY(mutex_);
};

// Ends the call of a stream whose peer takes nothing. A status would wait behind the bytes that the
// peer does not take, so the call is cancelled; the end of the write in progress then ends it.
// Thread-safe; never blocks.
class StalledCall {
 public:
  // gRPC's. Valid until Finish.
  explicit StalledCall(grpc::CallbackServerContext* context) : context_(context) {}

  // Called by the alarm.
  void Cancel();
  // Call it in OnDone: the context is gone. An alarm may still come.
  void Done();
  // Why a write failed: StalledError, or CANCELLED with this message.
  absl::Status WhyFailed(const StallLimits& limits, absl::string_view gone) const;

 private:
  grpc::CallbackServerContext* const context_;
  mutable absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longhaul
