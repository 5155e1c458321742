#include "coordinator/service/job_service.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/initial_checkpoint.h"
#include "coordinator/service/job_listing.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/message_size.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/submission.h"
#include "coordinator/service/unary.h"
#include "coordinator/store/checkpoint.h"

namespace longhaul::coordinator {
namespace {

constexpr int kPageDefault = 100, kPageMax = 1000;

// A page token names the last job of the page before.
absl::StatusOr<int64_t> OrderBefore(absl::string_view token) {
  int64_t order = std::numeric_limits<int64_t>::max();
  if (token.empty()) return order;
  if (!absl::ConsumePrefix(&token, "before-") || !absl::SimpleAtoi(token, &order) || order < 0) {
    return BadRequestError({{"page_token", "was not returned by ListJobs"}});
  }
  return order;
}

// A job that begins with a checkpoint or a folder. Blocks on the disk.
absl::StatusOr<ResolvedJob> ResolveBeginning(const ServiceContext& service,
                                             const v1::SubmitJobRequest& request) {
  v1::SubmitJobRequest filled = request;
  LH_RETURN_IF_ERROR(FillModel(service, *filled.mutable_spec()));
  LH_ASSIGN_OR_RETURN(ResolvedJob resolved, ResolveSubmission(filled, service.memory));
  LH_RETURN_IF_ERROR(ResolveInitial(service, resolved));
  return resolved;
}

// Pools that connect later may have the names.
void WarnOfPools(const ControlPlane& control, ResolvedJob& resolved) {
  // Else every submit would look at every pool.
  if (resolved.spec.data().pools().empty()) return;
  std::vector<std::string> names;
  for (const PoolView& pool : control.Pools()) names.push_back(pool.pool);
  std::string warning = WarningOfPoolNames(resolved.spec, names);
  if (!warning.empty()) resolved.beginning_warnings.push_back(std::move(warning));
}

}  // namespace

JobService::JobService(const ServiceContext& service, Forecasts* forecasts)
    : service_(service), forecasts_(forecasts) {}

JobService::~JobService() = default;

grpc::ServerUnaryReactor* JobService::SubmitJob(grpc::CallbackServerContext* context,
                                                const v1::SubmitJobRequest* request,
                                                v1::SubmitJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  const std::string owner = service_.JobCallerOf(*context).who;
  if (!request->spec().has_init()) {
    absl::StatusOr<ResolvedJob> resolved = ResolveSubmission(*request, service_.memory);
    if (!resolved.ok()) return Answered(context, resolved.status());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    Submit(reactor, request, response, *std::move(resolved), owner);
    return reactor;
  }
  // Not on a thread of gRPC, since the disk may block.
  return AnswerElsewhere(
      context, [&](auto task, auto*) { return service_.beside->Submit(std::move(task)); },
      [=, this](grpc::ServerUnaryReactor* reactor) {
        absl::StatusOr<ResolvedJob> resolved = ResolveBeginning(service_, *request);
        if (!resolved.ok()) return reactor->Finish(ToGrpcStatus(resolved.status()));
        Submit(reactor, request, response, *std::move(resolved), owner);
      });
}

void JobService::Submit(grpc::ServerUnaryReactor* reactor, const v1::SubmitJobRequest* request,
                        v1::SubmitJobResponse* response, ResolvedJob resolved,
                        const std::string& owner) {
  WarnOfPools(*service_.control, resolved);
  if (request->validate_only()) {
    *response->mutable_job() = UnstoredJob(resolved);
    return reactor->Finish(grpc::Status::OK);
  }
  auto submit = [=, this, resolved = std::move(resolved)]() mutable -> absl::Status {
    LH_ASSIGN_OR_RETURN(
        const Submitted submitted,
        service_.control->Submit(std::move(resolved), request->idempotency_token(), owner));
    response->set_created(submitted.created);
    return Get(submitted.job, response->mutable_job());
  };
  const bool posted = service_.owner->Post(
      [reactor, submit = std::move(submit)]() mutable { reactor->Finish(ToGrpcStatus(submit())); },
      RefusalOf(reactor));
  if (!posted) reactor->Finish(ToGrpcStatus(Overloaded()));
}

grpc::ServerUnaryReactor* JobService::PlanJob(grpc::CallbackServerContext* context,
                                              const v1::PlanJobRequest* request,
                                              v1::PlanJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerElsewhere(
      context, [&](auto task, auto*) { return service_.beside->Submit(std::move(task)); },
      [=, this](grpc::ServerUnaryReactor* reactor) {
        forecasts_->Plan(reactor, *request, response);
      });
}

absl::Status JobService::Get(const std::string& name_or_id, v1::Job* job) {
  LH_ASSIGN_OR_RETURN(const JobRecord record, FindJobRecord(service_.control->meta(), name_or_id));
  *job = Bounded(Report(*service_.control, record));
  return absl::OkStatus();
}

absl::StatusOr<JobRecord> JobService::FindJobToChange(const std::string& name_or_id,
                                                      const JobCaller& caller) {
  LH_ASSIGN_OR_RETURN(JobRecord record, FindJobRecord(service_.control->meta(), name_or_id));
  LH_RETURN_IF_ERROR(caller.MayChange(record.name, record.owner));
  return record;
}

JobService::Answering JobService::ToChange(const grpc::CallbackServerContext& context,
                                           const std::string& name_or_id, Change change) {
  return [this, name_or_id, change = std::move(change),
          caller = service_.JobCallerOf(context)](grpc::ServerUnaryReactor* reactor) {
    const absl::StatusOr<JobRecord> record = FindJobToChange(name_or_id, caller);
    if (!record.ok()) return reactor->Finish(ToGrpcStatus(record.status()));
    change(reactor, *record, caller.who);
  };
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerFromOwner(context, service_,
                         [=, this] { return Get(request->job(), response->mutable_job()); });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  const absl::StatusOr<int64_t> before = OrderBefore(request->page_token());
  if (!before.ok()) return Answered(context, before.status());
  const int size =
      request->page_size() <= 0 ? kPageDefault : std::min(request->page_size(), kPageMax);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  JobListing::Begin(service_, *before, size, response, reactor);
  return reactor;
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  std::shared_ptr<JobWatchStream> stream =
      JobWatchStream::Open(2);  // The newest state, and the one that ends it.
  auto watch = [this, stream, request = *request] {
    v1::Job job;
    if (const absl::Status found = Get(request.job(), &job); !found.ok()) return stream->End(found);
    JobWatcher watcher{.stream = stream};
    if (request.has_events_after()) watcher.events_after = request.events_after();
    service_.watchers->Add(std::move(watcher), job, request.cursor(), service_.control->now(),
                           EventSourceOf(*service_.control));
  };
  const bool posted = service_.owner->PostRead(
      std::move(watch), [stream](const absl::Status& status) { stream->End(status); });
  if (!posted) stream->End(Overloaded());
  return stream.get();
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::CancelJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  auto cancel = [=, this](auto* reactor, const auto& record, const std::string&) {
    if (IsEnded(record.state) && record.state != JobState::kCancelled)
      return reactor->Finish(ToGrpcStatus(JobEnded(record)));
    service_.control->Do(
        coordinator::CancelJob{record.id, BoundedFaultText(request->reason())},
        [this, reactor, response, id = record.id](const std::optional<Answer>& answer) {
          // One that was cancelled before a restart is not known to the core any more.
          const Refuse* refusal = RefusalIn(answer);
          if (refusal != nullptr && refusal->reason != "JOB_UNKNOWN")
            return reactor->Finish(ToGrpcStatus(ToStatus(*refusal)));
          reactor->Finish(ToGrpcStatus(Get(id, response->mutable_job())));
        });
  };
  return OnOwnerInTime(context, service_, ToChange(*context, request->job(), std::move(cancel)));
}

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                      const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerFrom(context, *service_.beside, [=, this]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(const JobRecord record,
                        FindJobRecord(service_.control->meta(), request->job()));
    const Fragments& fragments = service_.control->fragments();
    LH_ASSIGN_OR_RETURN(
        std::vector<v1::CheckpointManifest> manifests,
        longhaul::ListCheckpoints(*fragments.parts().fs, fragments.JobDir(record.id)));
    for (v1::CheckpointManifest& manifest : manifests)
      *response->add_checkpoints() = std::move(manifest);
    if (response->ByteSizeLong() <= kPageBytesMax) return absl::OkStatus();
    for (v1::CheckpointManifest& manifest : *response->mutable_checkpoints())
      manifest.clear_tensors();
    auto& checkpoints = *response->mutable_checkpoints();
    std::reverse(checkpoints.pointer_begin(), checkpoints.pointer_end());
    response->set_left_out(KeepWithin(kPageBytesMax, &checkpoints));
    std::reverse(checkpoints.pointer_begin(), checkpoints.pointer_end());
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
