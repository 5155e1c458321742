// Retries of idempotent calls: exponential backoff with full jitter, until a deadline or a stop
// request. With full jitter the wait is uniform in [0, cap), so pools that lost a coordinator do
// not all come back at the same moment.
#pragma once

#include <functional>
#include <stop_token>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/random.h"

namespace longhaul {

struct Backoff {
  absl::Duration initial = absl::Milliseconds(100);
  absl::Duration max = absl::Seconds(5);
};

// The wait after the failed attempt `attempt` (0, 1, ...): at random, at most the initial one. That
// doubles with each attempt, up to `max`.
absl::Duration FullJitter(const Backoff& backoff, int attempt, Random& random);

// Whether the same call may succeed later: UNAVAILABLE, DATA_LOSS (send it again),
// RESOURCE_EXHAUSTED, or DEADLINE_EXCEEDED with a RetryInfo.
bool IsRetriable(const absl::Status& status);

// Blocks for `duration`, or until a stop is requested.
void WaitUnlessStopped(absl::Duration duration, const std::stop_token& stop);

struct RetryOptions {
  Backoff backoff;
  // No wait goes beyond it, so no attempt begins after it. Attempts use it as their own deadline,
  // too.
  absl::Time deadline;
  std::stop_token stop;
  // Required.
  const Clock* clock = nullptr;
  // Required. One retry at a time uses it.
  Random* random = nullptr;
  std::function<void(absl::Duration, const std::stop_token&)> wait = WaitUnlessStopped;
  // Whether there may be another attempt after this failure. Called once for each failure.
  std::function<bool(const absl::Status&)> retriable = IsRetriable;
  // Called before each wait, for metrics and logs.
  std::function<void(const absl::Status&, int attempt, absl::Duration wait)> on_retry = nullptr;
};

// How long to wait after this failure: at least as long as its RetryInfo says. It returns a status
// if there must be no further attempt: CANCELLED after a stop, otherwise the failure itself (also
// if the wait would reach the deadline).
absl::StatusOr<absl::Duration> NextWait(const absl::Status& failure, int attempt,
                                        const RetryOptions& options);

// Calls `call` (which returns absl::Status or absl::StatusOr<T>) until it succeeds or NextWait
// gives up. Blocks.
template <typename Call>
auto Retry(const RetryOptions& options, Call&& call) -> decltype(call()) {
  for (int attempt = 0;; ++attempt) {
    auto result = call();
    if (result.ok()) return result;
    absl::Status failure;
    if constexpr (std::is_same_v<decltype(result), absl::Status>) {
      failure = result;
    } else {
      failure = result.status();
    }
    absl::StatusOr<absl::Duration> wait = NextWait(failure, attempt, options);
    if (!wait.ok()) return wait.status();
    if (options.on_retry) options.on_retry(failure, attempt, *wait);
    options.wait(*wait, options.stop);
    if (options.stop.stop_requested()) return absl::CancelledError("stopped between attempts");
  }
}

}  // namespace longhaul
