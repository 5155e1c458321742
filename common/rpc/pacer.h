// Keeps what a process sends below a rate, over all its channels together. A sender that fills a
// distant link to the brim keeps the queue in front of it full, where control calls then wait, and
// loses what does not fit into it.
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

  // When these bytes may be sent. They count, whether they are or not.
  absl::Time Reserve(int64_t bytes, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until then, or until a stop is requested.
  void Wait(int64_t bytes, const std::stop_token& stop);

 private:
  const double bytes_per_second_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace longhaul
