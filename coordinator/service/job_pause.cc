// JobService: pausing and resuming jobs.
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {

grpc::ServerUnaryReactor* JobService::ChangePause(grpc::CallbackServerContext* context,
                                                  const std::string& name_or_id, v1::Job* job,
                                                  const std::string& if_ended,
                                                  MakePauseEvent make) {
  return OnOwner(context, service_,
                 [=, this, make = std::move(make),
                  caller = service_.JobCallerOf(*context)](grpc::ServerUnaryReactor* reactor) {
                   const auto record = FindJobToChange(name_or_id, caller);
                   if (!record.ok()) return reactor->Finish(ToGrpcStatus(record.status()));
                   // The core does not know a job that ended before a restart.
                   if (const auto state = static_cast<JobState>(record->state); IsEnded(state)) {
                     return reactor->Finish(ToGrpcStatus(WithErrorInfo(
                         absl::FailedPreconditionError(absl::StrCat(
                             "job ", record->name, " has ended: ", JobStateName(state))),
                         {"JOB_ENDED", {{"hint", if_ended}}})));
                   }
                   StepAndFinish(reactor, *service_.performer, make(record->id, caller.who),
                                 [this, id = record->id, job](const std::optional<Answer>&) {
                                   return Get(id, job);
                                 });
                 });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const v1::PauseJobRequest* request,
                                               v1::PauseJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return ChangePause(context, request->job(), response->mutable_job(),
                     "it has no pools any more; `longhaul list` shows the jobs that have",
                     [reason = BoundedFaultText(request->reason())](const std::string& id,
                                                                    const std::string& who) {
                       return coordinator::PauseJob{.job = id, .by = who, .reason = reason};
                     });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::ResumeJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return ChangePause(context, request->job(), response->mutable_job(),
                     absl::StrCat("a new job can begin with its newest checkpoint: `longhaul "
                                  "submit --from ",
                                  request->job(), "`, with another name"),
                     [](const std::string& id, const std::string& who) {
                       return coordinator::ResumeJob{.job = id, .by = who};
                     });
}

}  // namespace longhaul::coordinator
