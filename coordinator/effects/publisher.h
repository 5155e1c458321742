// What the performer tells the outside: implemented by the service, which knows streams and
// watchers, and by the simulation.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/decision.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {

// Called on the owner thread, in the order in which things took effect; must not block.
class Publisher {
 public:
  virtual ~Publisher() = default;
  virtual void SeedRequested(const LiveJob& job, const RequestSeed& request) = 0;
  // `job.progress` has the commit.
  virtual void CommitPublished(const LiveJob& job, const PublishCommit& commit) = 0;
  virtual void PoolReleased(const LiveJob& job, const ReleasePool& release) = 0;
  // Also QUARANTINED.
  virtual void JobEnded(const LiveJob& job, const EndJob& end) = 0;
  // Something that a report of the job shows is different. Cheap.
  virtual void JobChanged(const LiveJob& job) = 0;
  // What is kept with the job's record beside its spec, opaque here: at the end the whole report.
  virtual std::string StatusOf(const LiveJob& job, const std::optional<JobFault>& fault) = 0;
};

}  // namespace longhaul::coordinator
