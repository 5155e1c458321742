// The words of every refusal, in one place.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

Job* Coordinator::FindLive(std::string_view id) {
  Job* job = jobs_.Find(id);
  if (job == nullptr) {
    Emit(Refuse{absl::NotFoundError(absl::StrFormat("no job %s", id)), "JOB_UNKNOWN"});
    return nullptr;
  }
  if (job->lifecycle.ended()) {
    Emit(Refuse{absl::FailedPreconditionError(absl::StrFormat(
                    "job %s has ended: %s", id, JobStateName(job->lifecycle.state()))),
                "JOB_ENDED"});
    return nullptr;
  }
  return job;
}

bool Coordinator::RequireLease(std::string_view pool, std::string_view incarnation) {
  const Member* member = membership_.Find(pool);
  if (member == nullptr || !member->live) {
    Emit(Refuse{absl::NotFoundError(absl::StrFormat("pool %s has no lease; join first", pool)),
                "POOL_UNKNOWN"});
    return false;
  }
  if (member->incarnation != incarnation) {
    Emit(Refuse{absl::AbortedError(absl::StrFormat("another incarnation holds the name %s", pool)),
                "POOL_REPLACED"});
    return false;
  }
  return true;
}

bool Coordinator::RefuseContribution(ContributionVerdict verdict, const Exchange& exchange,
                                     const ContributionComplete& event) {
  const auto failed = [&](std::string what, std::string reason) {
    Emit(Refuse{absl::FailedPreconditionError(absl::StrFormat("fragment %d version %d: %s",
                                                              event.fragment, event.version, what)),
                std::move(reason)});
    return true;
  };
  using Verdict = ContributionVerdict;
  switch (verdict) {
    case Verdict::kAccept:
    case Verdict::kRepeated:
      return false;
    case Verdict::kFragmentUnknown:
      Emit(Refuse{absl::NotFoundError(absl::StrCat("no fragment ", event.fragment)),
                  "FRAGMENT_UNKNOWN"});
      return true;
    case Verdict::kNotParticipant:
      Emit(Refuse{absl::AbortedError(absl::StrFormat("pool %s has no place in job %s any more",
                                                     event.pool, event.job)),
                  "POOL_LOST"});
      return true;
    case Verdict::kNotLive:
      return !RequireLease(event.pool, event.incarnation);
    case Verdict::kVersionMismatch: {
      const int64_t have = exchange.fragment(event.fragment).version;
      failed(absl::StrCat("the coordinator has version ", have), "VERSION_MISMATCH");
      std::get<Refuse>(out_.back()).have = have;
      return true;
    }
    case Verdict::kNotReady:
      return failed("the pool has not opened WatchPlan", "NOT_READY");
    case Verdict::kKindMismatch:
      return failed(absl::StrCat("is not a round of kind ", RoundKindName(event.kind)),
                    "KIND_MISMATCH");
    case Verdict::kNotSeeder:
      return failed("another pool is asked for the initial parameters", "NOT_SEEDER");
    case Verdict::kRoundClosed:
      return failed("the round is closed", "ROUND_CLOSED");
    case Verdict::kNotRequired:
      return failed("the pool began after this round's push", "NOT_REQUIRED");
  }
  return true;
}

}  // namespace longhaul::coordinator
