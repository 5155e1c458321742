// How often each caller may call: a bucket of tokens for each, which fills at a steady rate. Pure
// but for its lock: the time is an argument. Give it SteadyTime, since a caller would be refused
// for as long as the wall clock was set back.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace longhaul::coordinator {

// Thread-safe. Remembers only callers that called lately: when there are more than kCallersMax,
// those with a full bucket are forgotten.
class CallRate {
 public:
  static constexpr size_t kCallersMax = 4096;

  // Permits `per_second` calls, and `burst` calls at once after a pause. 0: no limit.
  CallRate(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Zero: the call is permitted, and counted. Else how long the caller must wait.
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
