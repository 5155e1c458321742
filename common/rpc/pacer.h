// Keeps what a process sends below a rate, over all its channels together. A sender that fills a
// distant link completely also fills the queue before the link: control calls then wait there, and
// packets are lost.
#pragma once

#include <cstdint>
#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul {

// Thread-safe.
class Pacer {
 public:
  // Requires bytes_per_second > 0.
  explicit Pacer(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  // When these bytes may be sent, in the time of `now` (SteadyTime). They count even if they are
  // not sent.
  absl::Time Reserve(int64_t bytes, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until these bytes may be sent, or until a stop is requested. After a stop they do not
  // count: who begins again must not wait for what was never sent.
  void Wait(int64_t bytes, const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Duration TimeOf(int64_t bytes) const {
    return absl::Seconds(static_cast<double>(bytes) / bytes_per_second_);
  }
  void GiveBack(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const double bytes_per_second_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace longhaul
