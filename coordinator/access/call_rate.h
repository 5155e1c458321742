// How often each caller may call: a bucket of tokens for each, which fills at a steady rate. Pure
// but for its lock: the time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul::coordinator {

// Thread-safe. Keeps the callers of the last moments alone: one whose bucket is full is forgotten
// when there are more than kCallersMax.
class CallRate {
 public:
  static constexpr size_t kCallersMax = 4096;

  // `per_second` calls, and `burst` at once after a pause. 0 calls: no limit.
  CallRate(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Zero: this call may be; it counts. Else how long the caller has to wait for its next one.
  absl::Duration Take(absl::string_view caller, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  double per_second() const { return per_second_; }

 private:
  struct Bucket {
    double calls = 0;
    absl::Time at;
  };
  double Filled(const Bucket& bucket, absl::Time now) const;

  const double per_second_, burst_;
  absl::Mutex mutex_;
  std::map<std::string, Bucket, std::less<>> buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
