#include "coordinator/access/call_rate.h"

#include <algorithm>

namespace longhaul::coordinator {

double CallRate::Filled(const Bucket& bucket, absl::Time now) const {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(now - bucket.at));
  return std::min(burst_, bucket.calls + seconds * per_second_);
}

absl::Duration CallRate::Take(absl::string_view caller, absl::Time now) {
  if (per_second_ <= 0) return absl::ZeroDuration();
  absl::MutexLock lock(&mutex_);
  auto found = buckets_.find(caller);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kCallersMax) {
      std::erase_if(buckets_, [&](const auto& item) { return Filled(item.second, now) >= burst_; });
    }
    found = buckets_.emplace(std::string(caller), Bucket{burst_, now}).first;
  }
  Bucket& bucket = found->second;
  bucket = {Filled(bucket, now), std::max(bucket.at, now)};
  if (bucket.calls < 1) return absl::Seconds((1 - bucket.calls) / per_second_);
  bucket.calls -= 1;
  return absl::ZeroDuration();
}

}  // namespace longhaul::coordinator
