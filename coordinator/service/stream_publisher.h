// Sends what took effect to connected clients: commits and ends to the WatchPlan streams,
// changes to the WatchJob streams.
#pragma once

#include <string>

#include "coordinator/effects/control_plane.h"
#include "coordinator/effects/publisher.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/plan_streams.h"

namespace longhaul::coordinator {

// Owner thread.
class StreamPublisher : public Publisher {
 public:
  // All outlive the object; the control plane is there before the first call.
  StreamPublisher(PlanStreams* plan_streams, JobWatchers* watchers)
      : plan_streams_(plan_streams), watchers_(watchers) {}
  void Connect(ControlPlane* control) { control_ = control; }

  void SeedRequested(const LiveJob& job, const RequestSeed& request) override;
  void CommitPublished(const LiveJob& job, const PublishCommit& commit) override;
  void RoundCalled(const LiveJob& job, const CallRound& call) override;
  void PoolReleased(const LiveJob& job, const ReleasePool& release) override;
  void JobEnded(const LiveJob& job, const EndJob& end) override;
  void JobChanged(const LiveJob& job) override;
  std::string StatusOf(const LiveJob& job, const JobRecord& record,
                       const std::optional<JobFault>& fault) override;

  // Sends what changed to the watchers.
  void Flush();

 private:
  PlanStreams* const plan_streams_;
  JobWatchers* const watchers_;
  ControlPlane* control_ = nullptr;
};

}  // namespace longhaul::coordinator
