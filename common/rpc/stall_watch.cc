#include "common/rpc/stall_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_details.h"

namespace longhaul {

absl::Status StalledError(const StallLimits& limits) {
  const absl::Status status = absl::DeadlineExceededError(
      absl::StrCat("no progress: the stream stalled for ", absl::FormatDuration(limits.pause_max),
                   ", or is slower than ", limits.pace_min, " bytes per second"));
  return WithRetryDelay(WithErrorInfo(status, {"NO_PROGRESS", {}}), absl::ZeroDuration());
}

void StallWatch::Start(std::function<void()> on_stall) {
  absl::MutexLock lock(&mutex_);
  on_stall_ = std::move(on_stall);
  Arm(limits_.pause_max);
}

void StallWatch::Expect(int64_t bytes) {
  const absl::Time due =
      SteadyTime() + limits_.pause_max + absl::Seconds(1) * bytes / limits_.pace_min;
  absl::MutexLock lock(&mutex_);
  due_ = due;
}

bool StallWatch::Pause() {
  absl::MutexLock lock(&mutex_);
  due_ = absl::InfiniteFuture();
  return on_stall_ != nullptr;
}

void StallWatch::Stop() {
  // Its destructor cancels it and frees its callback, after the lock is released.
  std::unique_ptr<grpc::Alarm> alarm;
  std::function<void()> on_stall;
  absl::MutexLock lock(&mutex_);
  alarm = std::move(alarm_);
  on_stall = std::exchange(on_stall_, nullptr);
}

void StallWatch::Arm(absl::Duration wait) {
  // A new alarm is made, since the callback of the old one may be running.
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(GrpcDeadline(SteadyTime() + wait), [self = shared_from_this()](bool rang) {
    if (rang) self->Ring();
  });
}

void StallWatch::Ring() {
  std::function<void()> on_stall;
  {
    absl::MutexLock lock(&mutex_);
    if (on_stall_ == nullptr) return;
    const absl::Duration left = due_ - SteadyTime();
    if (left > absl::ZeroDuration()) return Arm(std::min(left, limits_.pause_max));
    on_stall = std::move(on_stall_);
    on_stall_ = nullptr;
  }
  on_stall();
}

void StalledCall::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (done_) return;
  cancelled_ = true;
  context_->TryCancel();
}

void StalledCall::Done() {
  absl::MutexLock lock(&mutex_);
  done_ = true;
}

absl::Status StalledCall::WhyFailed(const StallLimits& limits, absl::string_view gone) const {
  absl::MutexLock lock(&mutex_);
  return cancelled_ ? StalledError(limits) : absl::CancelledError(gone);
}

}  // namespace longhaul
