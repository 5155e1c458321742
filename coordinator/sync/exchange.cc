#include "coordinator/sync/exchange.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace longhaul {

Exchange::Exchange(RoundPlan plan, const RoundPolicy& policy)
    : plan_(std::move(plan)), policy_(policy), fragments_(plan_.fragments()) {
  for (int p = 0; p < plan_.fragments(); ++p) OpenNext(fragments_[p], p);
}

void Exchange::Restore(int fragment, int64_t version, std::string evaluator,
                       const std::map<int, std::string>& contributors, absl::Time now) {
  FragmentProgress& progress = fragments_[fragment];
  progress.version = version;
  progress.evaluator = std::move(evaluator);
  OpenNext(progress, fragment);
  if (!progress.round.has_value()) return;
  Round& round = *progress.round;
  for (const auto& [ordinal, incarnation] : contributors) {
    LH_CHECK(0 <= ordinal && ordinal < static_cast<int>(participants_.all().size()),
             "no such place");
    // The log may hold contributions that were complete but refused in the end, and contributions
    // of an incarnation that has no place any more. They do not count. Of the initial parameters,
    // any one of them does.
    const Participant& pool = participants_.at(ordinal);
    const bool counts =
        round.id().kind == RoundKind::kSeed ? !round.opened() : pool.Owes(round.push_step());
    if (counts && pool.incarnation == incarnation) round.Add(ordinal, incarnation, now);
  }
}

ContributionVerdict Exchange::Judge(const Participant* pool, const RoundId& asked) const {
  using Verdict = ContributionVerdict;
  if (asked.fragment < 0 || asked.fragment >= plan_.fragments()) return Verdict::kFragmentUnknown;
  if (pool == nullptr || pool->gone()) return Verdict::kNotParticipant;
  if (!pool->live()) return Verdict::kNotLive;
  if (!pool->ready()) return Verdict::kNotReady;
  const FragmentProgress& progress = fragments_[asked.fragment];
  if (asked.version != progress.version + 1 || !progress.round.has_value())
    return Verdict::kVersionMismatch;
  const Round& round = *progress.round;
  if (asked.kind != round.id().kind) return Verdict::kKindMismatch;
  if (round.Has(pool->ordinal)) return Verdict::kRepeated;
  const bool seed = asked.kind == RoundKind::kSeed;
  if (seed && seeder_ != pool->ordinal) return Verdict::kNotSeeder;
  if (round.applying()) return Verdict::kRoundClosed;
  if (!seed && !pool->Owes(round.push_step())) return Verdict::kNotRequired;
  return Verdict::kAccept;
}

void Exchange::Contribute(const Participant& pool, int fragment, absl::Time now) {
  FragmentProgress& progress = fragments_[fragment];
  // A new model must never replace trained parameters.
  LH_CHECK((progress.round->id().kind == RoundKind::kSeed) == (progress.version < 0),
           "a seed after a commit");
  progress.round->Add(pool.ordinal, pool.incarnation, now);
  participants_.at(pool.ordinal).late_in_a_row = 0;
  progress.changed = true;
  // Newcomers begin later now, so they cannot contribute to rounds of other fragments.
  if (progress.round->called()) PoolsChanged();
}

void Exchange::PoolRestarted(const Participant& pool) {
  for (FragmentProgress& progress : fragments_) {
    if (!progress.round.has_value()) continue;
    Round& round = *progress.round;
    const auto earlier = round.contributors().find(pool.ordinal);
    if (earlier == round.contributors().end() || earlier->second == pool.incarnation) continue;
    if (!round.applying() && pool.Owes(round.push_step())) round.Remove(pool.ordinal);
  }
  PoolsChanged();
}

std::vector<int> Exchange::Withdraw(int fragment, int ordinal) {
  FragmentProgress& progress = fragments_[fragment];
  const bool quorum = !policy_.lockstep() && progress.round->id().kind != RoundKind::kSeed;
  std::vector<int> refused;
  if (quorum) refused = progress.round->Owing(participants_, Presence::kLive);
  // Another pool may have been asked meanwhile, and its parameters for this fragment were refused.
  if (progress.round->id().kind == RoundKind::kSeed) seeder_.reset();
  progress.round->Reopen();
  progress.round->Remove(ordinal);
  progress.changed = true;
  return refused;
}

void Exchange::PoolsChanged() {
  for (FragmentProgress& progress : fragments_) progress.changed = true;
}

std::vector<DueRound> Exchange::Due(absl::Time now) {
  std::vector<DueRound> due;
  const int64_t newcomers_begin = NewcomerStart().value_or(plan_.steps());
  for (FragmentProgress& progress : fragments_) {
    if (!progress.round.has_value()) continue;
    Round& round = *progress.round;
    if (!std::exchange(progress.changed, false) && now < round.due_at()) continue;
    const RoundVerdict verdict = round.Decide(participants_, now, newcomers_begin);
    if (verdict == RoundVerdict::kWait) continue;
    DueRound result{.round = round.id(), .contributors = round.contributors()};
    if (verdict == RoundVerdict::kSkip) result.round.kind = RoundKind::kSkipped;
    if (policy_.lockstep()) {
      result.missed = round.Owing(participants_, Presence::kLost);
    } else {
      result.late = round.Owing(participants_, Presence::kLive);
    }
    progress.kind = result.round.kind;
    progress.evaluator.clear();
    round.Close();
    due.push_back(std::move(result));
  }
  return due;
}

std::vector<RoundId> Exchange::TakeCalls() {
  std::vector<RoundId> calls;
  for (FragmentProgress& progress : fragments_) {
    std::optional<Round>& round = progress.round;
    if (round.has_value() && round->TakeCall()) calls.push_back(round->id());
  }
  return calls;
}

absl::Time Exchange::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const FragmentProgress& fragment : fragments_) {
    if (fragment.round.has_value() && !fragment.round->applying())
      next = std::min(next, fragment.round->due_at());
  }
  return next;
}

std::vector<DueRound> Exchange::CloseSeeds() {
  std::vector<DueRound> due;
  for (FragmentProgress& progress : fragments_) {
    if (progress.version >= 0 || progress.round->applying()) continue;
    progress.kind = RoundKind::kSeed;
    progress.evaluator.clear();
    progress.round->Close();
    due.push_back({.round = progress.round->id()});
  }
  return due;
}

bool Exchange::Commit(int fragment, int64_t version, const std::set<int>& left_out) {
  if (fragment < 0 || fragment >= plan_.fragments()) return false;
  FragmentProgress& progress = fragments_[fragment];
  if (!progress.round.has_value() || progress.round->id().version != version ||
      !progress.round->applying())
    return false;
  progress.contributors.clear();
  for (const auto& [ordinal, incarnation] : progress.round->contributors())
    if (!left_out.contains(ordinal)) progress.contributors.push_back(ordinal);
  progress.version = version;
  OpenNext(progress, fragment);
  return true;
}

const Participant* Exchange::PickSeeder() {
  if (seeder_.has_value() && participants_.at(*seeder_).ready()) return &participants_.at(*seeder_);
  seeder_.reset();
  for (const Participant& p : participants_.all()) {
    if (!p.ready()) continue;
    seeder_ = p.ordinal;
    return &p;
  }
  return nullptr;
}

std::optional<int64_t> Exchange::NewcomerStart() const {
  // The other pools are at about the largest step whose push was seen. If no pool is ready, a new
  // one must do everything that is neither committed nor being applied, from the earliest push on.
  int64_t seen = 0, earliest = plan_.steps() + 1;
  for (int p = 0; p < plan_.fragments(); ++p) {
    const FragmentProgress& progress = fragments_[p];
    if (progress.version >= 0) seen = std::max(seen, plan_.PushStep(p, progress.version));
    if (!progress.round.has_value()) continue;
    const Round& round = *progress.round;
    if (round.behind_newcomers()) seen = std::max(seen, round.push_step());
    const int64_t next = Approaching(p) + 1;
    if (next <= plan_.LastVersion(p)) earliest = std::min(earliest, plan_.PushStep(p, next));
  }
  const int64_t start = participants_.ready_count() > 0 ? seen : earliest - 1;
  if (start >= plan_.steps()) return std::nullopt;
  return start;
}

int64_t Exchange::WholeVersion() const {
  int64_t version = fragments_[0].version;
  for (const FragmentProgress& fragment : fragments_) version = std::min(version, fragment.version);
  return version;
}

bool Exchange::Complete() const {
  return std::all_of(fragments_.begin(), fragments_.end(),
                     [](const FragmentProgress& f) { return !f.round.has_value(); });
}

std::optional<int64_t> Exchange::CompletesCycle(int fragment, int64_t version) const {
  if (version < 1 || version > plan_.cycles()) return std::nullopt;
  for (int p = 0; p < plan_.fragments(); ++p) {
    if (p != fragment && Approaching(p) < version) return std::nullopt;
  }
  return version;
}

bool Exchange::CompletesAll(int fragment, int64_t version) const {
  for (int p = 0; p < plan_.fragments(); ++p) {
    if ((p == fragment ? version : Approaching(p)) < plan_.LastVersion(p)) return false;
  }
  return true;
}

void Exchange::OpenNext(FragmentProgress& progress, int index) {
  progress.round.reset();
  const int64_t next = progress.version + 1;
  if (next > plan_.LastVersion(index)) return;
  progress.round.emplace(RoundId{index, next, plan_.KindOf(index, next)},
                         plan_.PushStep(index, next), policy_);
  progress.changed = true;
}

int64_t Exchange::Approaching(int fragment) const {
  const FragmentProgress& progress = fragments_[fragment];
  const bool applying = progress.round.has_value() && progress.round->applying();
  return progress.version + (applying ? 1 : 0);
}

}  // namespace longhaul
