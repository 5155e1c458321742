#include "coordinator/service/stream_publisher.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/messages.h"

namespace longhaul::coordinator {

void StreamPublisher::SeedRequested(const LiveJob& job, const RequestSeed& request) {
  v1::PlanEvent event;
  event.mutable_seed();
  plan_streams_->SendToPool(job.id(), request.pool, event);
}

void StreamPublisher::CommitPublished(const LiveJob& job, const PublishCommit& commit) {
  v1::PlanEvent event;
  *event.mutable_commit() = ToProto(*job.progress.commit(commit.round.fragment), job.id());
  plan_streams_->SendToJob(job.id(), event);
}

void StreamPublisher::RoundCalled(const LiveJob& job, const CallRound& call) {
  v1::PlanEvent event;
  event.mutable_call()->set_fragment(call.round.fragment);
  event.mutable_call()->set_version(call.round.version);
  plan_streams_->SendToJob(job.id(), event);
}

void StreamPublisher::PoolReleased(const LiveJob& job, const ReleasePool& release) {
  const char* const reason = absl::IsAborted(release.status) ? "POOL_LOST" : "NOT_ASSIGNED";
  plan_streams_->EndPool(job.id(), release.pool, release.incarnation,
                         WithErrorInfo(release.status, {reason, {}}));
}

void StreamPublisher::JobEnded(const LiveJob& job, const EndJob& end) {
  v1::PlanEvent event;
  std::string reason(JobStateName(end.state));
  if (end.fault.has_value()) absl::StrAppend(&reason, ": ", end.fault->message);
  event.mutable_ended()->set_reason(reason);
  plan_streams_->SendToJob(job.id(), event);
  plan_streams_->EndStreamsOf(job.id(), absl::OkStatus());
}

void StreamPublisher::JobChanged(const LiveJob& job) {
  watchers_->Changed(job.id(), control_->now());
}

std::string StreamPublisher::StatusOf(const LiveJob& job, const JobRecord& record,
                                      const std::optional<JobFault>& fault) {
  v1::Job report = ReportShortened(job, record, control_->View(job.id()), control_->now());
  report.clear_error();
  if (fault.has_value()) *report.mutable_error() = ToProto(*fault);
  return KeptStatus(std::move(report));
}

void StreamPublisher::Flush() {
  watchers_->Flush([this](const std::string& id) { return Bounded(Report(*control_, id)); },
                   EventSourceOf(*control_));
}

}  // namespace longhaul::coordinator
