#include "coordinator/service/contributions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace longhaul::coordinator {

Contributions::Contributions(std::vector<int64_t> fragment_blocks)
    : fragment_blocks_(std::move(fragment_blocks)) {}

Reservation Contributions::Reserve(const ContributionKey& key,
                                   const std::vector<BlockRange>& blocks) {
  absl::MutexLock lock(&mutex_);
  Arrival& arrival = arrivals_[key];
  int64_t wanted = 0, here = 0;
  for (const BlockRange& range : blocks) {
    wanted += range.count;
    auto it = arrival.ranges.upper_bound(range.first);
    if (it != arrival.ranges.begin() && std::prev(it)->second.end > range.first) --it;
    for (; it != arrival.ranges.end() && it->first < range.end(); ++it) {
      if (!it->second.here) return Reservation::kBusy;
      here += std::min(it->second.end, range.end()) - std::max(it->first, range.first);
    }
  }
  if (here == wanted) return Reservation::kRepeated;
  if (here > 0) return Reservation::kOverlap;
  for (const BlockRange& range : blocks) arrival.ranges[range.first] = {.end = range.end()};
  return Reservation::kTaken;
}

void Contributions::Confirm(const ContributionKey& key, const std::vector<BlockRange>& blocks,
                            ShardRef shard) {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return;  // Its round was committed without it.
  for (const BlockRange& range : blocks) {
    const auto reserved = found->second.ranges.find(range.first);
    if (reserved == found->second.ranges.end()) return;
    reserved->second.here = true;
    found->second.blocks += range.count;
  }
  found->second.shards.push_back(shard);
}

void Contributions::Release(const ContributionKey& key, const std::vector<BlockRange>& blocks) {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return;
  for (const BlockRange& range : blocks) found->second.ranges.erase(range.first);
  if (found->second.ranges.empty()) arrivals_.erase(found);
}

bool Contributions::Whole(const ContributionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  return found != arrivals_.end() && WholeLocked(key, found->second);
}

std::vector<ShardRef> Contributions::Shards(const ContributionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end() || !WholeLocked(key, found->second)) return {};
  return found->second.shards;
}

void Contributions::Forget(int fragment, int64_t version) {
  absl::MutexLock lock(&mutex_);
  auto it = arrivals_.lower_bound({.fragment = fragment, .version = 0});
  while (it != arrivals_.end() && it->first.fragment == fragment && it->first.version <= version) {
    it = arrivals_.erase(it);
  }
}

}  // namespace longhaul::coordinator
