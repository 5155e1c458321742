#include "coordinator/service/job_service.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/refusal.h"
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
    return BadRequestError({{"page_token", "is not one that ListJobs gave"}});
  }
  return order;
}

absl::StatusOr<JobRecord> FindRecord(MetaStore& meta, const std::string& name_or_id) {
  absl::StatusOr<JobRecord> record = meta.GetJob(name_or_id);
  if (!absl::IsNotFound(record.status())) return record;
  return ToStatus({.status = absl::NotFoundError(
                       absl::StrCat("no job has the name or id \"", name_or_id, "\"")),
                   .reason = "JOB_UNKNOWN"});
}

}  // namespace

grpc::ServerUnaryReactor* JobService::SubmitJob(grpc::CallbackServerContext* context,
                                                const v1::SubmitJobRequest* request,
                                                v1::SubmitJobResponse* response) {
  absl::StatusOr<ResolvedJob> resolved = ResolveSubmission(*request);
  if (!resolved.ok()) return Answered(context, resolved.status());
  if (request->validate_only()) {
    *response->mutable_job() = ReportUnstored(*resolved);
    return Answered(context, absl::OkStatus());
  }
  return AnswerFromOwner(context, runtime_,
                         [=, this, resolved = *std::move(resolved)]() mutable -> absl::Status {
                           absl::StatusOr<v1::SubmitJobResponse> submitted =
                               Submit(*runtime_, std::move(resolved), request->idempotency_token());
                           runtime_->Note(submitted.status());
                           if (submitted.ok() && !runtime_->halted())
                             *response = *std::move(submitted);
                           return submitted.status();
                         });
}

absl::Status JobService::Get(const std::string& name_or_id, v1::Job* job) {
  LH_ASSIGN_OR_RETURN(const JobRecord record, FindRecord(*runtime_->parts().meta, name_or_id));
  *job = runtime_->Report(record);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  return AnswerFromOwner(context, runtime_,
                         [=, this] { return Get(request->job(), response->mutable_job()); });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return AnswerFromOwner(context, runtime_, [=, this]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(const int64_t before, OrderBefore(request->page_token()));
    const int size =
        request->page_size() <= 0 ? kPageDefault : std::min(request->page_size(), kPageMax);
    LH_ASSIGN_OR_RETURN(const std::vector<JobRecord> page,
                        runtime_->parts().meta->ListJobs(before, size));
    for (const JobRecord& record : page) *response->add_jobs() = runtime_->Report(record);
    if (static_cast<int>(page.size()) == size) {
      response->set_next_page_token(absl::StrCat("before-", page.back().order));
    }
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  std::shared_ptr<JobWatchStream> stream =
      JobWatchStream::Open(2);  // The newest state, and the one that ends it.
  const bool posted =
      runtime_->Post([this, stream, name = request->job(), cursor = request->cursor()] {
        v1::Job job;
        if (const absl::Status found = Get(name, &job); !found.ok()) return stream->End(found);
        runtime_->watchers().Add(stream, job, cursor, runtime_->now());
      });
  if (!posted) stream->End(Runtime::Overloaded());
  return stream.get();
}

absl::Status JobService::Cancel(const v1::CancelJobRequest& request, v1::Job* job) {
  LH_ASSIGN_OR_RETURN(const JobRecord record, FindRecord(*runtime_->parts().meta, request.job()));
  const JobState state = FromProto(static_cast<v1::JobState>(record.state));
  absl::Status result;
  if (!IsEnded(state)) {
    runtime_->Step(coordinator::CancelJob{record.id, BoundedFaultText(request.reason())},
                   [&](const Answer& answer) {
                     if (const Refuse* refusal = std::get_if<Refuse>(&answer))
                       result = ToStatus(*refusal);
                   });
  } else if (state != JobState::kCancelled) {
    result = ToStatus({.status = absl::FailedPreconditionError(absl::StrCat(
                           "job ", record.name, " has ended: ", std::string(JobStateName(state)))),
                       .reason = "JOB_ENDED"});
  }
  LH_RETURN_IF_ERROR(result);
  return Get(record.id, job);
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::CancelJobResponse* response) {
  return AnswerFromOwner(context, runtime_,
                         [=, this] { return Cancel(*request, response->mutable_job()); });
}

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                      const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // The folder is read beside the owner thread.
  const bool accepted = runtime_->RunBeside([=, this] {
    const auto list = [&]() -> absl::Status {
      LH_ASSIGN_OR_RETURN(const JobRecord record,
                          FindRecord(*runtime_->parts().meta, request->job()));
      auto manifests =
          longhaul::ListCheckpoints(*runtime_->parts().fs, runtime_->JobDir(record.id));
      if (absl::IsNotFound(manifests.status())) return absl::OkStatus();  // No store yet.
      LH_RETURN_IF_ERROR(manifests.status());
      for (v1::CheckpointManifest& manifest : *manifests)
        *response->add_checkpoints() = std::move(manifest);
      return absl::OkStatus();
    };
    reactor->Finish(ToGrpcStatus(list()));
  });
  if (!accepted) reactor->Finish(ToGrpcStatus(Runtime::Overloaded()));
  return reactor;
}

}  // namespace longhaul::coordinator
