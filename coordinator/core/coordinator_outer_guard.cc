// guard.outer: which contributions are left out of a round, and that this is told.
#include <utility>

#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

Work Coordinator::WorkOf(const Job& job, int index) {
  const FragmentProgress& fragment = job.exchange->fragment(index);
  const Round& round = *fragment.round;
  const RoundId id{index, round.id().version, fragment.kind};
  std::vector<Contributor> contributors;
  for (const auto& [ordinal, incarnation] : round.contributors()) {
    contributors.push_back({ordinal, job.exchange->participants().at(ordinal).pool, incarnation});
  }
  const bool steps = fragment.kind == RoundKind::kOuter || fragment.kind == RoundKind::kFinal;
  ApplyRound apply{job.id, id, {}, fragment.evaluator};
  if (!job.options.outer_guard.on || !steps) {
    apply.contributors = std::move(contributors);
    return apply;
  }
  const auto outer = job.outer.find(index);
  if (outer == job.outer.end() || !outer->second.verdict.has_value())
    return MeasureRound{job.id, id, std::move(contributors)};
  const OuterVerdict& verdict = *outer->second.verdict;
  apply.outer.usual = verdict.usual;
  for (const OuterVerdict::Far& far : verdict.far) {
    const Contributor& pool = contributors[far.contribution];
    if (!verdict.overruled) apply.outer.left_out.push_back({pool.pool, pool.incarnation, far.why});
  }
  for (size_t i = 0; i < contributors.size(); ++i)
    if (!verdict.LeavesOut(i)) apply.contributors.push_back(std::move(contributors[i]));
  return apply;
}

void Coordinator::On(const RoundMeasured& event) {
  Job* job = Find(event.job);
  if (job == nullptr || job->store != StoreState::kOpen) return;
  Unblock(*job);
  const Exchange& rounds = *job->exchange;
  const Round& round = *rounds.fragment(event.round.fragment).round;
  LH_CHECK(round.applying() && round.id().version == event.round.version &&
               round.contributors().size() == event.contributions.size(),
           "a round that was not to be measured");
  Job::OuterFragment& outer = job->outer[event.round.fragment];
  outer.measured.clear();
  for (const auto& [ordinal, incarnation] : round.contributors()) outer.measured.push_back(ordinal);
  const int needed = rounds.policy().lockstep() ? 1 : rounds.policy().quorum;
  outer.verdict = JudgeOuter(job->options.outer_guard, outer.usual, event.contributions, needed);
  out_.works.push_back(WorkOf(*job, event.round.fragment));
  Touch(*job);
}

std::set<int> Coordinator::LeftOutOf(const Job& job, int index) {
  std::set<int> left_out;
  const auto outer = job.outer.find(index);
  if (outer == job.outer.end() || !outer->second.verdict.has_value()) return left_out;
  const std::vector<int>& measured = outer->second.measured;
  for (size_t i = 0; i < measured.size(); ++i)
    if (outer->second.verdict->LeavesOut(i)) left_out.insert(measured[i]);
  return left_out;
}

// Told once in a row of a fragment's rounds.
void Coordinator::TellLeftOut(Job& job, const RoundId& round) {
  Job::OuterFragment& outer = job.outer[round.fragment];
  if (!outer.verdict.has_value()) return;
  const OuterVerdict verdict = *std::exchange(outer.verdict, std::nullopt);
  outer.usual = verdict.usual;
  std::map<int, bool> told;
  for (const OuterVerdict::Far& far : verdict.far) {
    const Participant& pool = job.exchange->participants().at(outer.measured[far.contribution]);
    told[pool.ordinal] = verdict.overruled;
    const auto before = outer.told.find(pool.ordinal);
    if (before != outer.told.end() && before->second == verdict.overruled) continue;
    out_.notices.push_back(PoolLeftOut{job.id, pool.pool, round, far.why, verdict.overruled});
  }
  outer.told = std::move(told);
}

}  // namespace longhaul::coordinator
