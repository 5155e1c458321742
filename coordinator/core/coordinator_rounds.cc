// Rounds: which ranks are admitted, what is contributed, and what each job does next.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

// How many cycles up to this one are evaluated: the first, and then one of every `every`.
int64_t EvaluationsUntil(int64_t cycle, int64_t every) {
  if (every <= 0 || cycle <= 0) return 0;
  return cycle / every + (every > 1 ? 1 : 0);
}

}  // namespace

void Coordinator::On(const RankReady& event) {
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  // The job was quarantined before its places were known.
  if (!job->exchange.has_value()) return AnswerWith(*JobRefusal(event.job));
  if (auto refusal = LeaseRefusal(event.pool, event.incarnation))
    return AnswerWith(*std::move(refusal));
  const Participant* participant = Admit(event, *job);
  if (participant == nullptr) return;
  const bool seed =
      job->state() == JobState::kSeeding && job->exchange->seeder() == participant->ordinal;
  AnswerWith(AdmitRank{event.job, event.pool, event.incarnation, event.rank,
                       *participant->start_step, participant->ordinal, seed});
}

// Returns the pool's place with a start step, which its first ready rank fixes. Null: refused.
Participant* Coordinator::Admit(const RankReady& event, Job& job) {
  if (auto refusal = PlaceRefusal(job, event.pool, event.incarnation)) {
    AnswerWith(*std::move(refusal));
    return nullptr;
  }
  if (auto refusal = OpeningRefusal(job)) {
    AnswerWith(*std::move(refusal));
    return nullptr;
  }
  Participant* participant = job.exchange->participants().Find(event.pool);
  if (participant->start_step.has_value()) return participant;
  std::optional<int64_t> start = 0;
  if (job.state() == JobState::kRunning) start = job.exchange->NewcomerStart();
  if (job.state() == JobState::kFinishing) start.reset();
  if (!start.has_value()) {
    const absl::Status late =
        absl::FailedPreconditionError(absl::StrFormat("job %s is about to end", job.options.name));
    Release(job, *participant, late);
    AnswerWith(Refuse{late, "JOB_FINISHING"});
    return nullptr;
  }
  participant->start_step = start;
  Persist(job, *participant);
  job.exchange->PoolRestarted(*participant);
  Touch(job);
  return participant;
}

std::optional<Refuse> Coordinator::Judge(const ContributionId& c) const {
  if (auto refusal = JobRefusal(c.job)) return refusal;
  const Job& job = *Find(c.job);
  if (auto refusal = OpeningRefusal(job)) return refusal;
  const Exchange& rounds = *job.exchange;
  const Participant* pool = rounds.participants().Find(c.pool, c.incarnation);
  return ContributionRefusal(rounds.Judge(pool, c.round), job, c);
}

std::optional<Refuse> Coordinator::CheckReader(std::string_view id, std::string_view pool,
                                               std::string_view incarnation) const {
  if (const EndedJob* ended = ended_.Find(id); ended != nullptr && !ended->deleted) {
    if (!ended->pools.contains(pool)) return NotAssigned(ended->name, pool);
    return LeaseRefusal(pool, incarnation);
  }
  if (auto refusal = JobRefusal(id)) return refusal;
  const Job& job = *Find(id);
  const Participant* place = job.exchange->participants().Find(pool, incarnation);
  if (place == nullptr || place->gone()) return PlaceRefusal(job, pool, incarnation);
  return OpeningRefusal(job);
}

void Coordinator::On(const ContributionComplete& event) {
  if (auto refusal = Judge(event.id)) return AnswerWith(*std::move(refusal));
  Job& job = *Find(event.id.job);
  Exchange& rounds = *job.exchange;
  const Participant& pool = *rounds.participants().Find(event.id.pool);
  if (rounds.fragment(event.id.round.fragment).round->Has(pool.ordinal)) return;
  rounds.Contribute(pool, event.id.round.fragment, now_);
  // The contribution shows that the pool can do this job.
  job.set_asides.Contributed(pool.pool);
  Touch(job);
}

void Coordinator::On(const RoundApplied& event) {
  Job* job = Find(event.job);
  // If the job was cancelled meanwhile, the commit stays in the store.
  if (job == nullptr || job->store != StoreState::kOpen) return;
  Unblock(*job);
  Exchange& rounds = *job->exchange;
  const int index = event.round.fragment;
  LH_CHECK(rounds.Commit(index, event.round.version, LeftOutOf(*job, index)),
           "a commit that was not asked for");
  const FragmentProgress& fragment = rounds.fragment(index);
  PublishCommit publish{
      event.job, {index, fragment.version, fragment.kind}, {}, fragment.evaluator};
  for (int ordinal : fragment.contributors)
    publish.pools.push_back(rounds.participants().at(ordinal).pool);
  out_.notices.push_back(std::move(publish));
  TellLeftOut(*job, event.round);
  CheckpointDue(*job, event.round.version);
  Touch(*job);
}

void Coordinator::Advance(Job& job) {
  if (job.ended() || job.state() == JobState::kQuarantined) return;
  Guard(job);
  if (job.ended()) return;
  Proceed(job);
  if (job.ended()) return;
  // Rounds do not wait any more for the pools that have stopped.
  if (ReleaseStopped(job)) Proceed(job);
  if (!job.ended()) SettlePause(job);
}

void Coordinator::Proceed(Job& job) {
  const auto due = std::stable_partition(job.retries.begin(), job.retries.end(),
                                         [&](const RetriedWork& retry) { return retry.at > now_; });
  for (auto it = due; it != job.retries.end(); ++it) out_.works.push_back(std::move(it->work));
  job.retries.erase(due, job.retries.end());
  Exchange& rounds = *job.exchange;
  for (Participant& p : rounds.participants().all()) {
    if (p.presence == Presence::kAway && p.return_until <= now_) Drop(job, p, Presence::kLeft);
  }
  if (job.state() == JobState::kPending &&
      rounds.participants().ready_count() >= job.options.pools_min) {
    MoveTo(job, JobState::kSeeding);
  }
  OpenWithinMemory(job);
  if (job.store != StoreState::kOpen) return;
  if (job.state() == JobState::kSeeding) Seed(job);
  if (job.state() == JobState::kSeeding || job.state() == JobState::kRunning) ApplyDue(job);
  if (job.state() == JobState::kSeeding && rounds.Seeded()) {
    MoveTo(job, JobState::kRunning);
    rounds.PoolsChanged();
    ApplyDue(job);
  }
  if (job.state() == JobState::kRunning && rounds.Complete()) {
    MoveTo(job, JobState::kFinishing);
    // It had done its last step before its pools could stop.
    if (job.pause != PauseStage::kNone) SetPause(job, PauseStage::kNone);
    KeepPools(job);
    placement_due_ = true;
  }
  if (job.state() == JobState::kFinishing) FinishWhenReady(job);
}

void Coordinator::Seed(Job& job) {
  Exchange& rounds = *job.exchange;
  if (job.options.from_checkpoint) {
    for (const DueRound& seed : rounds.CloseSeeds())
      out_.works.push_back(ApplyRound{job.id, seed.round, {}, ""});
    return;
  }
  const std::optional<int> before = rounds.seeder();
  const Participant* seeder = rounds.PickSeeder();
  if (seeder != nullptr && before != seeder->ordinal)
    out_.notices.push_back(RequestSeed{job.id, seeder->pool});
}

void Coordinator::ApplyDue(Job& job) {
  Exchange& rounds = *job.exchange;
  // The initial parameters come from one pool. If they waited, it could be lost, and another pool
  // be asked for them.
  if (job.gathers && job.state() != JobState::kSeeding && !IsPaused(job.pause)) {
    const int ready = rounds.participants().ready_count();
    // Without a pool, all of them may have left to come back as new incarnations.
    job.gathers =
        ready == 0 || (ready < job.options.pools_min && ready < rounds.participants().live_count());
    if (job.gathers) return;
  }
  for (const DueRound& due : rounds.Due(now_)) {
    for (int ordinal : due.late) CountLate(job, rounds.participants().at(ordinal));
    for (int ordinal : due.missed) {
      Participant& missed = rounds.participants().at(ordinal);
      // It may have missed several rounds at once.
      if (!missed.gone()) Drop(job, missed, Presence::kMissed);
    }
    rounds.SetEvaluator(due.round.fragment, ChooseEvaluator(job, due));
    out_.works.push_back(WorkOf(job, due.round.fragment));
  }
  for (const RoundId& round : rounds.TakeCalls()) out_.notices.push_back(CallRound{job.id, round});
}

// Told once in a row, after two rounds of every fragment.
void Coordinator::CountLate(const Job& job, Participant& late) {
  ++late.late_rounds;
  if (++late.late_in_a_row == 2 * job.exchange->plan().fragments())
    out_.notices.push_back(PoolFellBehind{job.id, late.pool, late.late_in_a_row});
}

std::string Coordinator::ChooseEvaluator(const Job& job, const DueRound& due) const {
  const Exchange& rounds = *job.exchange;
  const auto& [fragment, version, kind] = due.round;
  const std::optional<int64_t> cycle = rounds.CompletesCycle(fragment, version);
  const int64_t every = job.options.evaluation_every_cycles;
  const bool regular = cycle.has_value() && every > 0 && (*cycle == 1 || *cycle % every == 0);
  const bool last = version > 0 && rounds.CompletesAll(fragment, version);
  if ((!regular && !last) || job.options.every_pool_evaluates) return "";
  std::vector<std::string> able;
  for (const auto& [ordinal, incarnation] : due.contributors) {
    if (rounds.participants().at(ordinal).ready())
      able.push_back(rounds.participants().at(ordinal).pool);
  }
  if (able.empty()) return "";
  // A pool does not train while it evaluates. Pools take turns, so that the others do not always
  // wait for the same one.
  const int64_t turn =
      last ? EvaluationsUntil(rounds.plan().cycles(), every) : EvaluationsUntil(*cycle - 1, every);
  return able[turn % static_cast<int64_t>(able.size())];
}

// Until when a FINISHING job waits for its pools. In the past: it does not wait. The final
// evaluation and each pool's last merges have one deadline. What a pool evaluates after another
// one's evaluation came is not needed, so it has an earlier one, unless every pool evaluates.
absl::Time Coordinator::AwaitsPoolsUntil(const Job& job) const {
  const Exchange& rounds = *job.exchange;
  const Participants& participants = rounds.participants();
  if (!job.final_evaluation) {
    for (int p = 0; p < rounds.plan().fragments(); ++p) {
      const Participant* evaluator = participants.Find(rounds.fragment(p).evaluator);
      if (evaluator != nullptr && evaluator->ready()) return job.finish_until;
    }
  }
  absl::Time until = absl::InfinitePast();
  for (const Participant& p : participants.all()) {
    if (!p.ready() || p.finished || p.last_step.has_value()) continue;
    const bool repeats = !job.options.every_pool_evaluates || job.evaluated_last.contains(p.pool);
    until = std::max(until, p.merged && repeats ? std::min(job.evaluate_until, job.finish_until)
                                                : job.finish_until);
  }
  return until;
}

void Coordinator::FinishWhenReady(Job& job) {
  if (job.finish_until == absl::InfiniteFuture()) {
    job.finish_until =
        now_ + (job.options.every_pool_evaluates ? options_.evaluate_all : options_.finish);
  }
  if (job.final_evaluation && job.evaluate_until == absl::InfiniteFuture())
    job.evaluate_until = now_ + options_.evaluate;
  if (job.final_checkpoint == FinalCheckpoint::kWritten) {
    // A requested checkpoint that is not written yet has its last try.
    if (job.checkpoint_asked != 0) return;
    if (job.divergence.bad() && job.options.guard.on_divergence != DivergenceAction::kNone)
      return FailDiverged(job);
    return End(job, JobState::kCompleted);
  }
  if (job.final_checkpoint == FinalCheckpoint::kWriting) return;
  if (now_ < AwaitsPoolsUntil(job)) return;
  job.final_checkpoint = FinalCheckpoint::kWriting;
  out_.works.push_back(WriteCheckpoint{
      .job = job.id, .step = job.exchange->plan().steps(), .final = true, .last = true});
}

// --- guard.outer: which contributions are left out of a round.

Work Coordinator::WorkOf(const Job& job, int index) {
  const FragmentProgress& fragment = job.exchange->fragment(index);
  const Round& round = *fragment.round;
  const RoundId id{index, round.id().version, fragment.kind};
  std::vector<Contributor> contributors;
  for (const auto& [ordinal, incarnation] : round.contributors()) {
    contributors.push_back({ordinal, job.exchange->participants().at(ordinal).pool, incarnation});
  }
  const bool steps = fragment.kind == RoundKind::kOuter || fragment.kind == RoundKind::kFinal;
  const auto outer = job.outer.find(index);
  ApplyRound apply{job.id, id, {}, fragment.evaluator};
  if (!job.options.outer_guard.on || !steps) {
    // A restart learns what is usual from the last commit, of whichever kind.
    if (outer != job.outer.end()) apply.outer.usual = outer->second.usual;
    apply.contributors = std::move(contributors);
    return apply;
  }
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
