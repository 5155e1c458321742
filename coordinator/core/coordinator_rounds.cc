// Rounds: who is admitted, what is contributed, what each job does next.
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

void Coordinator::On(const RankReady& event) {
  Job* job = FindLive(event.job);
  if (job == nullptr || !RequireLease(event.pool, event.incarnation)) return;
  const Participant* participant = Admit(event, *job);
  if (participant == nullptr) return;
  const bool seed = job->lifecycle.state() == JobState::kSeeding &&
                    exchange(*job).seeder() == participant->ordinal;
  Emit(AdmitRank{event.job, event.pool, event.incarnation, event.rank, *participant->start_step,
                 participant->ordinal, seed});
}

// The pool's place, with a start step: its first rank to be ready fixes it. Null: refused.
Participant* Coordinator::Admit(const RankReady& event, Job& job) {
  Participant* participant = exchange(job).participants().Find(event.pool, event.incarnation);
  if (participant == nullptr || !participant->live()) {
    const bool lost = participant != nullptr && participant->presence != Presence::kLeft;
    Emit(lost ? Refuse{absl::AbortedError(
                           absl::StrFormat("job %s went on without pool %s", job.id, event.pool)),
                       "POOL_LOST"}
              : Refuse{absl::FailedPreconditionError(absl::StrFormat(
                           "pool %s is not assigned to job %s", event.pool, job.id)),
                       "NOT_ASSIGNED"});
    return nullptr;
  }
  if (participant->start_step.has_value()) return participant;
  std::optional<int64_t> start = 0;
  if (job.lifecycle.state() == JobState::kRunning) start = exchange(job).NewcomerStart();
  if (job.lifecycle.state() == JobState::kFinishing) start.reset();
  if (!start.has_value()) {
    Drop(job, *participant, Presence::kLeft);
    membership_.Requeue(event.pool);
    Emit(ReleasePool{event.pool, job.id});
    Emit(Refuse{absl::FailedPreconditionError(absl::StrFormat("job %s is about to end", job.id)),
                "JOB_FINISHING"});
    return nullptr;
  }
  participant->start_step = start;
  Emit(PersistParticipant{job.id, event.pool, event.incarnation, participant->ordinal, start});
  exchange(job).PoolsChanged();
  Touch(job);
  return participant;
}

void Coordinator::On(const ContributionBegins& event) {
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  const Exchange& rounds = exchange(*job);
  const Participant* pool = rounds.participants().Find(event.pool, event.incarnation);
  RefuseContribution(
      rounds.Judge(pool, event.fragment, event.version, event.kind), rounds,
      {event.job, event.pool, event.incarnation, event.fragment, event.version, event.kind});
}

void Coordinator::On(const ContributionComplete& event) {
  Job* job = FindLive(event.job);
  if (job == nullptr) return;
  Exchange& rounds = exchange(*job);
  const Participant* pool = rounds.participants().Find(event.pool, event.incarnation);
  const ContributionVerdict verdict = rounds.Judge(pool, event.fragment, event.version, event.kind);
  if (RefuseContribution(verdict, rounds, event) || verdict == ContributionVerdict::kRepeated)
    return;
  rounds.Contribute(*pool, event.fragment, now_);
  Touch(*job);
}

void Coordinator::On(const RoundApplied& event) {
  Job* job = jobs_.Find(event.job);
  if (job == nullptr || job->lifecycle.ended())
    return;  // Cancelled meanwhile: the commit stays in the store.
  Exchange& rounds = exchange(*job);
  LH_CHECK(rounds.Commit(event.fragment, event.version), "a commit that was not asked for");
  const FragmentProgress& fragment = rounds.fragment(event.fragment);
  PublishCommit publish{event.job, event.fragment,    event.version, fragment.kind,
                        {},        fragment.evaluator};
  for (int ordinal : fragment.contributors)
    publish.pools.push_back(rounds.participants().at(ordinal).pool);
  Emit(std::move(publish));
  CheckpointDue(*job, event.fragment, event.version);
  Touch(*job);
}

void Coordinator::Advance(Job& job) {
  if (job.lifecycle.ended()) return;
  Exchange& rounds = exchange(job);
  const auto state = [&] { return job.lifecycle.state(); };
  if (state() == JobState::kPending &&
      rounds.participants().ready_count() >= job.options.pools_min) {
    MoveTo(job, JobState::kSeeding);
  }
  if (state() == JobState::kSeeding) Seed(job);
  if (state() == JobState::kSeeding || state() == JobState::kRunning) ApplyDue(job);
  if (state() == JobState::kSeeding && rounds.Seeded()) {
    MoveTo(job, JobState::kRunning);
    rounds.PoolsChanged();
    ApplyDue(job);
  }
  if (state() == JobState::kRunning && rounds.Complete()) {
    MoveTo(job, JobState::kFinishing);
    idle_changed_ = true;
  }
  if (state() == JobState::kFinishing) AwaitFinalEvaluation(job);
}

void Coordinator::Seed(Job& job) {
  Exchange& rounds = exchange(job);
  const std::optional<int> before = rounds.seeder();
  const Participant* seeder = rounds.PickSeeder();
  if (seeder != nullptr && before != seeder->ordinal) Emit(RequestSeed{job.id, seeder->pool});
}

void Coordinator::ApplyDue(Job& job) {
  Exchange& rounds = exchange(job);
  for (const DueRound& round : rounds.Due()) {
    for (int ordinal : round.missed) {
      const Participant& p = rounds.participants().at(ordinal);
      Emit(PersistParticipantLeft{job.id, p.pool, p.incarnation, ordinal});
    }
    ApplyRound apply{
        job.id, round.fragment, round.version, round.kind, {}, ChooseEvaluator(job, round)};
    for (int ordinal : round.contributors) {
      const Participant& p = rounds.participants().at(ordinal);
      apply.contributors.push_back({ordinal, p.pool, p.incarnation});
    }
    rounds.SetEvaluator(round.fragment, apply.evaluator);
    Emit(std::move(apply));
  }
}

// The live contributor of the lowest ordinal, if this commit completes a cycle that is evaluated,
// or the job. A contributor merges the commit for certain; a newcomer may have begun with it.
std::string Coordinator::ChooseEvaluator(const Job& job, const DueRound& round) const {
  const Exchange& rounds = exchange(job);
  const std::optional<int64_t> cycle = rounds.CompletesCycle(round.fragment, round.version);
  const int64_t every = job.options.evaluation_every_cycles;
  const bool due = cycle.has_value() && every > 0 && (*cycle == 1 || *cycle % every == 0);
  const bool last = round.version > 0 && rounds.CompletesAll(round.fragment, round.version);
  if (!due && !last) return "";
  for (int ordinal : round.contributors) {
    if (rounds.participants().at(ordinal).ready()) return rounds.participants().at(ordinal).pool;
  }
  return "";
}

void Coordinator::CheckpointDue(const Job& job, int fragment, int64_t version) {
  const Exchange& rounds = exchange(job);
  const int64_t every = job.options.checkpoint_every_cycles;
  if (every <= 0 || version < 1 || version > rounds.plan().cycles() || version % every != 0) return;
  for (int p = 0; p < rounds.plan().fragments(); ++p) {
    if (rounds.fragment(p).version < version) return;
  }
  // Every fragment passes `version` once; the last one to do so completes the cycle.
  Emit(WriteCheckpoint{job.id, version, rounds.plan().CycleStep(version), false});
}

void Coordinator::AwaitFinalEvaluation(Job& job) {
  const Exchange& rounds = exchange(job);
  bool expected = false;
  for (int p = 0; p < rounds.plan().fragments(); ++p) {
    const auto place = places_.find(rounds.fragment(p).evaluator);
    expected |= place != places_.end() && place->second.job == job.id &&
                rounds.participants().at(place->second.ordinal).ready();
  }
  if (job.final_evaluation_until == absl::InfiniteFuture())
    job.final_evaluation_until = now_ + options_.final_evaluation;
  if (expected && !job.final_evaluation && now_ < job.final_evaluation_until) return;
  Emit(WriteCheckpoint{job.id, 0, rounds.plan().steps(), true});
  End(job, JobState::kCompleted);
}

}  // namespace longhaul::coordinator
