// How the performer reports what took effect. The service implements it, since it knows streams and
// watchers, and so does the simulation.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/decision.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {

// Methods are called on the owner thread, in the order in which things took effect. They must not
// block.
class Publisher {
 public:
  virtual ~Publisher() = default;
  virtual void SeedRequested(const LiveJob& job, const RequestSeed& request) = 0;
  // `job.progress` has the commit already.
  virtual void CommitPublished(const LiveJob& job, const PublishCommit& commit) = 0;
  virtual void RoundCalled(const LiveJob& job, const CallRound& call) = 0;
  virtual void PoolReleased(const LiveJob& job, const ReleasePool& release) = 0;
  // Also called for QUARANTINED.
  virtual void JobEnded(const LiveJob& job, const EndJob& end) = 0;
  // A report of the job would show something different now. Must be cheap.
  virtual void JobChanged(const LiveJob& job) = 0;
  // Bytes that are stored with the job's record as it will be, beside its spec. They are for people
  // and opaque to the performer: nothing is decided by them. At the end of a job they are its whole
  // report.
  virtual std::string StatusOf(const LiveJob& job, const JobRecord& record,
                               const std::optional<JobFault>& fault) = 0;
};

}  // namespace longhaul::coordinator
