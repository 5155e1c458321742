// JobService: pausing and resuming jobs.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {
void JobService::ChangePause(grpc::ServerUnaryReactor* reactor, const JobRecord& record,
                             const std::string& if_ended, const Command& command, v1::Job* job) {
  // The core does not know a job that ended before a restart.
  if (IsEnded(record.state)) return reactor->Finish(ToGrpcStatus(JobEnded(record, if_ended)));
  DoAndFinish(reactor, *service_.control, command,
              [this, id = record.id, job](const std::optional<Answer>&) { return Get(id, job); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const v1::PauseJobRequest* request,
                                               v1::PauseJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  auto pause = [=, this](auto* reactor, const auto& record, const std::string& caller) {
    ChangePause(reactor, record, "it has released its pools; `longhaul list` shows running jobs",
                coordinator::PauseJob{
                    .job = record.id, .by = caller, .reason = BoundedFaultText(request->reason())},
                response->mutable_job());
  };
  return OnOwnerInTime(context, service_, ToChange(*context, request->job(), std::move(pause)));
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::ResumeJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  auto resume = [=, this](auto* reactor, const auto& record, const std::string& caller) {
    ChangePause(reactor, record,
                absl::StrCat("a new job can start from its newest checkpoint: `longhaul submit "
                             "--from ",
                             request->job(), "`, with another name"),
                coordinator::ResumeJob{.job = record.id, .by = caller}, response->mutable_job());
  };
  return OnOwnerInTime(context, service_, ToChange(*context, request->job(), std::move(resume)));
}

}  // namespace longhaul::coordinator
