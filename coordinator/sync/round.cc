#include "coordinator/sync/round.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul {

void Round::Add(int ordinal, std::string incarnation, absl::Time now) {
  LH_CHECK(!applying_ && !Has(ordinal), "a contribution counts once, before the round is applied");
  if (!opened()) opened_at_ = now;
  contributors_.emplace(ordinal, std::move(incarnation));
  const bool enough = static_cast<int>(contributors_.size()) >= policy_.quorum;
  if (!policy_.lockstep() && id_.kind != RoundKind::kSeed && enough && !called()) called_at_ = now;
}

void Round::Remove(int ordinal) {
  LH_CHECK(!applying_, "a round that is applied is closed");
  contributors_.erase(ordinal);
  if (static_cast<int>(contributors_.size()) >= policy_.quorum) return;
  called_at_ = absl::InfiniteFuture();
  call_taken_ = false;
}

RoundVerdict Round::Decide(const Participants& participants, absl::Time now,
                           int64_t newcomers_begin) const {
  if (applying_) return RoundVerdict::kWait;
  if (id_.kind == RoundKind::kSeed) return opened() ? RoundVerdict::kApply : RoundVerdict::kWait;
  if (due_at() <= now) return RoundVerdict::kApply;
  if (IsOwed(participants, Presence::kLive)) return RoundVerdict::kWait;
  if (participants.ready_count() == 0) {
    // Lost pools may come back. But nobody may be left who could contribute to what is called.
    const bool over = called() && !IsOwed(participants, Presence::kLost);
    return over ? RoundVerdict::kApply : RoundVerdict::kWait;
  }
  const int available = AvailableCount(participants);
  if (opened()) {
    // Nobody owes the round any more. A quorum that is here, but partly began after the push, need
    // not contribute. One that is not here is waited for, unless nobody who comes could contribute.
    const bool enough = called() || available >= policy_.quorum || push_step_ <= newcomers_begin;
    return enough ? RoundVerdict::kApply : RoundVerdict::kWait;
  }
  // Pools that drain before this round do not train beyond it. Then the round is left to the pools
  // that come after them.
  return available > 0 ? RoundVerdict::kSkip : RoundVerdict::kWait;
}

int Round::AvailableCount(const Participants& participants) const {
  const auto& all = participants.all();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [this](const Participant& p) {
    return p.ready() && (!p.last_step.has_value() || push_step_ <= *p.last_step);
  }));
}

bool Round::IsOwed(const Participants& participants, Presence presence) const {
  if (id_.kind == RoundKind::kSeed) return false;
  // Both are in the order of ordinals.
  auto next = contributors_.begin();
  for (const Participant& p : participants.all()) {
    while (next != contributors_.end() && next->first < p.ordinal) ++next;
    const bool contributed = next != contributors_.end() && next->first == p.ordinal;
    if (!contributed && p.presence == presence && p.Awaited(push_step_)) return true;
  }
  return false;
}

std::vector<int> Round::Owing(const Participants& participants, Presence presence) const {
  std::vector<int> owing;
  if (id_.kind == RoundKind::kSeed) return owing;
  for (const Participant& p : participants.all()) {
    if (p.presence == presence && p.Awaited(push_step_) && !Has(p.ordinal))
      owing.push_back(p.ordinal);
  }
  return owing;
}

}  // namespace longhaul
