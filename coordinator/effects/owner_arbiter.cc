#include "coordinator/effects/owner_arbiter.h"

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/refusal.h"

namespace longhaul::coordinator {
namespace {

// A stream's thread must not wait for ever if the decision waits for disk space.
constexpr absl::Duration kCompleteTimeout = absl::Seconds(30);

struct Verdict {
  absl::Notification done;
  absl::Status status;
};

}  // namespace

absl::Status OwnerArbiter::Judge(const ContributionId& contribution) const {
  return performer_->Judge(contribution);
}

absl::Status OwnerArbiter::CheckReader(const std::string& job, const std::string& pool,
                                       const std::string& incarnation) const {
  return performer_->CheckPlace(job, pool, incarnation);
}

std::set<int64_t> OwnerArbiter::InitialSteps(const std::string& job) const {
  return performer_->InitialSteps(job);
}

absl::Status OwnerArbiter::Complete(const ContributionId& contribution) {
  auto verdict = std::make_shared<Verdict>();
  const bool posted = owner_->Post([this, contribution, verdict] {
    performer_->Step(ContributionComplete{contribution},
                     [verdict](const std::optional<Answer>& answer) {
                       if (const Refuse* refusal = RefusalIn(answer))
                         verdict->status = ToStatus(*refusal);
                       verdict->done.Notify();
                     });
  });
  if (!posted) return Overloaded();
  if (verdict->done.WaitForNotificationWithTimeout(kCompleteTimeout)) return verdict->status;
  return WithRetryDelay(absl::UnavailableError("the coordinator could not decide in time"),
                        absl::Seconds(1));
}

void OwnerArbiter::ReportStoreFailure(const std::string& job, const absl::Status& status) {
  (void)owner_->Submit([this, job, status] {
    performer_->Step(StoreFailed{job, FaultOf(status, "the job's store failed",
                                              "the job continues from its last commit after the "
                                              "coordinator has restarted with a working disk")});
  });
}

}  // namespace longhaul::coordinator
