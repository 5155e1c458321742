#include "common/rpc/retry.h"

#include <algorithm>
#include <cmath>

#include "absl/synchronization/notification.h"
#include "common/rpc/status_details.h"

namespace longhaul {

absl::Duration FullJitter(const Backoff& backoff, int attempt, Random& random) {
  // The exponent is limited, since the power would become infinite, and infinity times a random 0
  // is not a number.
  const double growth = std::ldexp(1.0, std::min(attempt, 60));
  return std::min(backoff.max, backoff.initial * growth) * random.Uniform();
}

bool IsRetriable(const absl::Status& status) {
  if (absl::IsUnavailable(status) || absl::IsDataLoss(status)) return true;
  return (absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status)) &&
         RetryDelayOf(status).has_value();
}

void WaitUnlessStopped(absl::Duration duration, const std::stop_token& stop) {
  absl::Notification stopped;
  const std::stop_callback notify(stop, [&stopped] { stopped.Notify(); });
  stopped.WaitForNotificationWithTimeout(duration);
}

absl::StatusOr<absl::Duration> NextWait(const absl::Status& failure, int attempt,
                                        const RetryOptions& options) {
  if (options.stop.stop_requested()) return absl::CancelledError("stopped between attempts");
  if (!options.retriable(failure)) return failure;
  const absl::Duration wait = RetryDelayOf(failure).value_or(absl::ZeroDuration()) +
                              FullJitter(options.backoff, attempt, *options.random);
  if (options.clock->Now() + wait >= options.deadline) return failure;
  return wait;
}

}  // namespace longhaul
