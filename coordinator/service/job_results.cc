// JobService: what jobs leave. Checkpoints on demand and their files, events, the removal of a job.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/checkpoint_stream.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/unary.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/job_folder.h"

namespace longhaul::coordinator {
namespace {

absl::Status UnknownCheckpoint(const std::string& job, absl::string_view what) {
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat("job ", job, " has ", what)),
      {"CHECKPOINT_UNKNOWN",
       {{"hint", absl::StrCat("`longhaul checkpoints ", job, "` shows what is kept")}}});
}

absl::StatusOr<CheckpointFile> OpenFile(ControlPlane& control,
                                        const v1::DownloadCheckpointRequest& request) {
  LH_ASSIGN_OR_RETURN(const JobRecord record, FindJobRecord(control.meta(), request.job()));
  Fragments& fragments = control.fragments();
  FileSystem& fs = *fragments.parts().fs;
  const std::string job_dir = fragments.JobDir(record.id);
  const absl::StatusOr<int64_t> step = FindCheckpoint(
      fs, job_dir, request.step() < 0 ? std::nullopt : std::optional(request.step()));
  if (absl::IsNotFound(step.status()))
    return UnknownCheckpoint(record.name, step.status().message());
  LH_RETURN_IF_ERROR(step.status());
  CheckpointFile opened{.step = *step, .held = fragments.HoldCheckpoint(record.id, *step)};
  absl::string_view file = request.file();
  const std::string folder = absl::ConsumePrefix(&file, "tokenizer/")
                                 ? TokenizerFolder(job_dir)
                                 : CheckpointPath(job_dir, *step);
  // Only a file that is directly in the folder, so a name cannot lead out of it.
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(fs, folder));
  if (std::find(names.begin(), names.end(), file) == names.end()) {
    return UnknownCheckpoint(record.name, absl::StrCat("no file ", request.file().substr(0, 256),
                                                       " in its checkpoint of step ", *step));
  }
  LH_ASSIGN_OR_RETURN(opened.file, fs.Open(JoinPath(folder, file)));
  LH_ASSIGN_OR_RETURN(opened.bytes, opened.file->Size());
  return opened;
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CreateCheckpoint(grpc::CallbackServerContext* context,
                                                       const v1::CreateCheckpointRequest* request,
                                                       v1::CreateCheckpointResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  auto ask = [=, this](auto* reactor, const auto& record, const std::string&) {
    if (IsEnded(record.state)) {
      return reactor->Finish(ToGrpcStatus(JobEnded(
          record, absl::StrCat("`longhaul checkpoints ", record.name, "` shows what it left"))));
    }
    DoAndFinish(reactor, *service_.control, AskCheckpoint{record.id},
                [this, response](const std::optional<Answer>& answer) {
                  const auto& promise = std::get<PromiseCheckpoint>(*answer);
                  response->set_step(promise.step);
                  response->set_path(CheckpointPath(
                      service_.control->fragments().JobDir(promise.job), promise.step));
                  return absl::OkStatus();
                });
  };
  return OnOwnerInTime(context, service_, ToChange(*context, request->job(), std::move(ask)));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* JobService::DownloadCheckpoint(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return SendCheckpointFile(
      context, request,
      [control = service_.control](const v1::DownloadCheckpointRequest& wanted) {
        return OpenFile(*control, wanted);
      },
      service_.bulk);
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const v1::DeleteJobRequest* request,
                                                v1::DeleteJobResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return OnOwnerInTime(
      context, service_,
      [this, request, response,
       caller = service_.JobCallerOf(*context)](grpc::ServerUnaryReactor* reactor) {
        // A deleted job belongs to nobody.
        const auto record = FindJobToChange(request->job(), caller);
        if (absl::IsPermissionDenied(record.status()))
          return reactor->Finish(ToGrpcStatus(record.status()));
        // Watchers hear how the job ended before it is removed.
        service_.watchers->Flush(
            [this](const std::string& id) { return Bounded(Report(*service_.control, id)); },
            EventSourceOf(*service_.control));
        service_.control->Delete(request->job(),
                                 [reactor, response](absl::StatusOr<Deleted> deleted) {
                                   if (deleted.ok()) {
                                     response->set_job_id(deleted->job);
                                     response->set_deleted(deleted->deleted);
                                   }
                                   reactor->Finish(ToGrpcStatus(deleted.status()));
                                 });
      });
}

grpc::ServerUnaryReactor* JobService::ListEvents(grpc::CallbackServerContext* context,
                                                 const v1::ListEventsRequest* request,
                                                 v1::ListEventsResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerFromOwner(context, service_, [=, this]() -> absl::Status {
    LH_ASSIGN_OR_RETURN(const JobRecord record,
                        FindJobRecord(service_.control->meta(), request->job()));
    for (v1::JobEvent& event : service_.control->EventsAfter(record.id, request->after()))
      *response->add_events() = std::move(event);
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
