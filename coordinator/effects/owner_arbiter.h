// Brings the questions of the fragments to the core. Questions that change nothing are answered at
// once, under the performer's lock. The others go through the owner thread.
#pragma once

#include <set>
#include <string>

#include "coordinator/effects/owner_thread.h"
#include "coordinator/effects/performer.h"
#include "coordinator/fragments/arbiter.h"

namespace longhaul::coordinator {

// Thread-safe after Connect.
class OwnerArbiter : public Arbiter {
 public:
  // Call before the first stream. Both outlive the streams.
  void Connect(Performer* performer, OwnerThread* owner) {
    performer_ = performer;
    owner_ = owner;
  }
  absl::Status Judge(const ContributionId& contribution) const override;
  absl::Status CheckReader(const std::string& job, const std::string& pool,
                           const std::string& incarnation) const override;
  std::set<int64_t> InitialSteps(const std::string& job) const override;
  // RESOURCE_EXHAUSTED (RetryInfo): too many calls wait for the owner thread.
  absl::Status Complete(const ContributionId& contribution) override;
  void ReportStoreFailure(const std::string& job, const absl::Status& status) override;

 private:
  Performer* performer_ = nullptr;
  OwnerThread* owner_ = nullptr;
};

}  // namespace longhaul::coordinator
