#include "coordinator/sync/round.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul {

void Round::Add(int ordinal, std::string incarnation, absl::Time now) {
  LH_CHECK(!applying_ && !Has(ordinal), "a contribution counts once, before the round is applied");
  if (!opened()) opened_at_ = now;
  contributors_.emplace(ordinal, std::move(incarnation));
}

void Round::Remove(int ordinal) {
  LH_CHECK(!applying_, "a round that is applied is closed");
  contributors_.erase(ordinal);
}

RoundVerdict Round::Decide(const Participants& participants) const {
  if (applying_) return RoundVerdict::kWait;
  if (kind_ == RoundKind::kSeed) return opened() ? RoundVerdict::kApply : RoundVerdict::kWait;
  if (participants.ready_count() == 0) return RoundVerdict::kWait;
  if (!Owing(participants, Presence::kLive).empty()) return RoundVerdict::kWait;
  if (opened()) return RoundVerdict::kApply;
  // Pools that drain before this round do not train beyond it. Then the round is left to the pools
  // that come after them.
  const auto& all = participants.all();
  const bool passed = std::any_of(all.begin(), all.end(), [this](const Participant& p) {
    return p.ready() && (!p.last_step.has_value() || push_step_ <= *p.last_step);
  });
  return passed ? RoundVerdict::kSkip : RoundVerdict::kWait;
}

std::vector<int> Round::Owing(const Participants& participants, Presence presence) const {
  std::vector<int> owing;
  if (kind_ == RoundKind::kSeed) return owing;
  for (const Participant& p : participants.all()) {
    if (p.presence == presence && p.Awaited(push_step_) && !Has(p.ordinal))
      owing.push_back(p.ordinal);
  }
  return owing;
}

}  // namespace longhaul
