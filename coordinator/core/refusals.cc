// The text of every refusal, in one place. It has the name of the job: people read it, in answers
// and in logs of workers. Of a job that is not known there is only what was asked for.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

Refuse Coordinator::NotAssigned(std::string_view job_name, std::string_view pool) {
  return {absl::FailedPreconditionError(
              absl::StrFormat("pool %s is not assigned to job %s", pool, job_name)),
          "NOT_ASSIGNED"};
}

std::optional<Refuse> Coordinator::JobRefusal(std::string_view id) const {
  const Job* job = Find(id);
  if (job != nullptr && job->state() != JobState::kQuarantined) return std::nullopt;
  if (job != nullptr) {
    return Refuse{absl::FailedPreconditionError(absl::StrFormat(
                      "job %s is quarantined: %s", job->options.name, job->fault->message)),
                  "JOB_QUARANTINED"};
  }
  if (const auto ending = endings_.find(id); ending != endings_.end()) {
    return Refuse{
        absl::FailedPreconditionError(absl::StrFormat("job %s has ended: %s", ending->second.name,
                                                      JobStateName(ending->second.state))),
        "JOB_ENDED"};
  }
  return Refuse{absl::NotFoundError(absl::StrFormat("no job %s", id)), "JOB_UNKNOWN"};
}

// A quarantined job can still be cancelled.
Job* Coordinator::FindLive(std::string_view id) {
  if (Job* job = Find(id); job != nullptr) return job;
  AnswerWith(*JobRefusal(id));
  return nullptr;
}

std::optional<Refuse> Coordinator::LeaseRefusal(std::string_view pool,
                                                std::string_view incarnation) const {
  const Member* member = membership_.Find(pool);
  if (member == nullptr || !member->live) {
    return Refuse{absl::NotFoundError(absl::StrFormat("pool %s has no lease; join first", pool)),
                  "POOL_UNKNOWN"};
  }
  if (member->incarnation != incarnation) {
    return Refuse{
        absl::AbortedError(absl::StrFormat("another worker already holds the name %s", pool)),
        "POOL_REPLACED"};
  }
  return std::nullopt;
}

std::optional<Refuse> Coordinator::OpeningRefusal(const Job& job) {
  // After a restart, streams may be judged before the first step, which begins to open the stores.
  const bool reopens = job.store == StoreState::kClosing && job.pause != PauseStage::kPaused;
  if (job.store != StoreState::kOpening && !AwaitsStore(job) && !reopens) return std::nullopt;
  return Refuse{.status = absl::UnavailableError(
                    absl::StrFormat("the store of job %s is being opened", job.options.name)),
                .reason = "STORE_OPENING",
                .retry_after = absl::Seconds(1)};
}

Refuse Coordinator::MustBeginAgain(std::string_view job_name, std::string_view pool) {
  return {
      absl::AbortedError(absl::StrFormat(
          "pool %s lost its place in job %s meanwhile; its ranks must restart", pool, job_name)),
      "POOL_LOST"};
}

std::optional<Refuse> Coordinator::PlaceRefusal(const Job& job, std::string_view pool,
                                                std::string_view incarnation) {
  const Participant* found = job.exchange->participants().Find(pool);
  if (found != nullptr && found->live() && found->incarnation == incarnation) {
    if (found->spent) return MustBeginAgain(job.options.name, pool);
    return std::nullopt;
  }
  if (found != nullptr && found->presence != Presence::kLeft) {
    return Refuse{absl::AbortedError(
                      absl::StrFormat("job %s continued without pool %s", job.options.name, pool)),
                  "POOL_LOST"};
  }
  return NotAssigned(job.options.name, pool);
}

std::optional<Refuse> Coordinator::ContributionRefusal(ContributionVerdict verdict, const Job& job,
                                                       const ContributionId& contribution) const {
  const RoundId& round = contribution.round;
  const auto failed = [&](std::string what, std::string reason) {
    return Refuse{absl::FailedPreconditionError(absl::StrFormat(
                      "fragment %d version %d: %s", round.fragment, round.version, what)),
                  std::move(reason)};
  };
  using Verdict = ContributionVerdict;
  switch (verdict) {
    case Verdict::kAccept:
    case Verdict::kRepeated:
      return std::nullopt;
    case Verdict::kFragmentUnknown:
      return Refuse{absl::NotFoundError(absl::StrCat("no fragment ", round.fragment)),
                    "FRAGMENT_UNKNOWN"};
    case Verdict::kNotParticipant:
      return Refuse{absl::AbortedError(absl::StrFormat("pool %s has no place in job %s any more",
                                                       contribution.pool, job.options.name)),
                    "POOL_LOST"};
    case Verdict::kNotLive:
      return LeaseRefusal(contribution.pool, contribution.incarnation);
    case Verdict::kVersionMismatch: {
      const int64_t have = job.exchange->fragment(round.fragment).version;
      Refuse refusal =
          failed(absl::StrCat("the coordinator has version ", have), "VERSION_MISMATCH");
      refusal.have = have;
      return refusal;
    }
    case Verdict::kNotReady:
      return failed("the pool has not opened WatchPlan", "NOT_READY");
    case Verdict::kKindMismatch:
      return failed(absl::StrCat("is not a round of kind ", RoundKindName(round.kind)),
                    "KIND_MISMATCH");
    case Verdict::kNotSeeder:
      return failed("another pool is asked for the initial parameters", "NOT_SEEDER");
    case Verdict::kRoundClosed:
      return failed("the round is closed", "ROUND_CLOSED");
    case Verdict::kNotRequired:
      return failed("the pool began after this round's push", "NOT_REQUIRED");
  }
  return std::nullopt;
}

}  // namespace longhaul::coordinator
