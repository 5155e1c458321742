#include "coordinator/fragments/contributions.h"

#include <utility>

#include "common/blocks/coded_blocks.h"

namespace longhaul::coordinator {

Contributions::Contributions(std::vector<int64_t> fragment_blocks)
    : fragment_blocks_(std::move(fragment_blocks)) {}

std::vector<BlockRange> Contributions::Reserve(const ContributionKey& key,
                                               const std::vector<BlockRange>& blocks) {
  absl::MutexLock lock(&mutex_);
  const auto free = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = arrivals_.find(key);
    return found == arrivals_.end() || Missing(blocks, found->second.reserved) == blocks;
  };
  mutex_.Await(absl::Condition(&free));
  Arrival& arrival = arrivals_[key];
  std::vector<BlockRange> taken = Missing(blocks, arrival.here);
  arrival.reserved = Merged(arrival.reserved, taken);
  return taken;
}

void Contributions::Confirm(const ContributionKey& key, const std::vector<BlockRange>& blocks,
                            StoredPart part) {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  // The contribution is gone if its round was committed without it.
  if (found == arrivals_.end()) return;
  found->second.reserved = Missing(found->second.reserved, blocks);
  found->second.here = Merged(found->second.here, blocks);
  found->second.parts.push_back(std::move(part));
}

void Contributions::Release(const ContributionKey& key, const std::vector<BlockRange>& blocks) {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return;
  found->second.reserved = Missing(found->second.reserved, blocks);
  if (found->second.here.empty() && found->second.reserved.empty()) arrivals_.erase(found);
}

void Contributions::Withdraw(const ContributionKey& key, uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end()) return;
  Arrival& arrival = found->second;
  std::erase_if(arrival.parts, [&](const StoredPart& part) {
    if (part.sequence != sequence) return false;
    arrival.here = Missing(arrival.here, longhaul::BlocksOf(part.info.segments));
    return true;
  });
  if (arrival.here.empty() && arrival.reserved.empty()) arrivals_.erase(found);
}

std::vector<BlockRange> Contributions::Blocks(const ContributionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  return found == arrivals_.end() ? std::vector<BlockRange>() : found->second.here;
}

bool Contributions::Whole(const ContributionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  return found != arrivals_.end() && WholeLocked(key, found->second);
}

std::vector<StoredPart> Contributions::Parts(const ContributionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = arrivals_.find(key);
  if (found == arrivals_.end() || !WholeLocked(key, found->second)) return {};
  return found->second.parts;
}

std::vector<ContributionKey> Contributions::WholeOf(int fragment, int64_t version) const {
  absl::MutexLock lock(&mutex_);
  std::vector<ContributionKey> whole;
  const auto end = arrivals_.lower_bound({.round = {fragment, version + 1}});
  for (auto it = arrivals_.lower_bound({.round = {fragment, version}}); it != end; ++it) {
    if (WholeLocked(it->first, it->second)) whole.push_back(it->first);
  }
  return whole;
}

void Contributions::Forget(const RoundId& round) {
  absl::MutexLock lock(&mutex_);
  arrivals_.erase(arrivals_.lower_bound({.round = {round.fragment, 0}}),
                  arrivals_.lower_bound({.round = {round.fragment, round.version + 1}}));
}

}  // namespace longhaul::coordinator
