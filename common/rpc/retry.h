// Retries of idempotent calls: exponential backoff with full jitter (a uniform wait in [0, cap), so
// that the pools that lost one coordinator do not return in step), until a deadline or a stop
// request.
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
  double multiplier = 2;
};

// The wait after failed attempt `attempt` (0, 1, ...).
absl::Duration FullJitter(const Backoff& backoff, int attempt, Random& random);

// Whether the same call may succeed later: UNAVAILABLE, DATA_LOSS (send it again),
// RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED with a RetryInfo.
bool IsRetriable(const absl::Status& status);

// Blocks for `duration` or until a stop is requested, whichever is first.
void WaitUnlessStopped(absl::Duration duration, const std::stop_token& stop);

struct RetryOptions {
  Backoff backoff;
  // No wait reaches beyond it, so no attempt begins after it. Attempts bound themselves by it too.
  absl::Time deadline;
  std::stop_token stop;
  const Clock* clock = nullptr;  // Required.
  Random* random = nullptr;      // Required; used by one retry at a time.
  std::function<void(absl::Duration, const std::stop_token&)> wait = WaitUnlessStopped;
  // Whether there may be another attempt after this failure. Asked once for each.
  std::function<bool(const absl::Status&)> retriable = IsRetriable;
  // Told before each wait, for metrics and logs.
  std::function<void(const absl::Status&, int attempt, absl::Duration wait)> on_retry = nullptr;
};

// How long to wait after this failure, at least what its RetryInfo asks for; a status when there is
// to be no other attempt: CANCELLED after a stop, else the failure itself (also when the wait would
// reach the deadline).
absl::StatusOr<absl::Duration> NextWait(const absl::Status& failure, int attempt,
                                        const RetryOptions& options);

// Calls `call` (returning absl::Status or absl::StatusOr<T>) until it succeeds or NextWait gives
// up. Blocks.
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
