// JobService: pausing and resuming jobs.
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {
namespace {

std::string IdOf(const absl::StatusOr<JobRecord>& record) { return record.ok() ? record->id : ""; }

}  // namespace

void JobService::ChangePause(grpc::ServerUnaryReactor* reactor,
                             const absl::StatusOr<JobRecord>& record, const std::string& if_ended,
                             const Event& event, v1::Job* job) {
  if (!record.ok()) return reactor->Finish(ToGrpcStatus(record.status()));
  // The core does not know a job that ended before a restart.
  if (IsEnded(record->state)) return reactor->Finish(ToGrpcStatus(HasEnded(*record, if_ended)));
  StepAndFinish(
      reactor, *service_.performer, event,
      [this, id = record->id, job](const std::optional<Answer>&) { return Get(id, job); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const v1::PauseJobRequest* request,
                                               v1::PauseJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return OnOwner(context, service_,
                 [this, request, response,
                  caller = service_.JobCallerOf(*context)](grpc::ServerUnaryReactor* reactor) {
                   const auto record = FindJobToChange(request->job(), caller);
                   ChangePause(reactor, record,
                               "it has no pools any more; `longhaul list` shows the jobs that have",
                               coordinator::PauseJob{.job = IdOf(record),
                                                     .by = caller.who,
                                                     .reason = BoundedFaultText(request->reason())},
                               response->mutable_job());
                 });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::ResumeJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return OnOwner(
      context, service_,
      [this, request, response,
       caller = service_.JobCallerOf(*context)](grpc::ServerUnaryReactor* reactor) {
        const auto record = FindJobToChange(request->job(), caller);
        ChangePause(reactor, record,
                    absl::StrCat("a new job can begin with its newest checkpoint: `longhaul submit "
                                 "--from ",
                                 request->job(), "`, with another name"),
                    coordinator::ResumeJob{.job = IdOf(record), .by = caller.who},
                    response->mutable_job());
      });
}

}  // namespace longhaul::coordinator
