#include "common/rpc/pacer.h"

#include <algorithm>

#include "common/base/clock.h"
#include "common/rpc/retry.h"

namespace longhaul {

// How much time a sender that woke late may catch up. It is also the burst after a pause.
constexpr absl::Duration kCredit = absl::Milliseconds(20);

absl::Time Pacer::Reserve(int64_t bytes, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const absl::Time start = std::max(next_, now - kCredit);
  next_ = start + TimeOf(bytes);
  return start;
}

void Pacer::Wait(int64_t bytes, const std::stop_token& stop) {
  const absl::Time now = SteadyTime();
  const absl::Time start = Reserve(bytes, now);
  if (start <= now) return;
  WaitUnlessStopped(start - now, stop);
  if (stop.stop_requested()) GiveBack(bytes);
}

void Pacer::GiveBack(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  next_ -= TimeOf(bytes);
}

}  // namespace longhaul
