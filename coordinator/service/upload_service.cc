#include "coordinator/service/upload_service.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/initial_checkpoint.h"
#include "coordinator/service/unary.h"
#include "coordinator/service/upload_request.h"
#include "coordinator/service/upload_stream.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kBusyRetry = absl::Seconds(1);

// What a caller is told of an error of Uploads.
absl::Status ExplainUpload(const absl::Status& status) {
  if (ErrorInfoOf(status).has_value()) return status;
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return WithErrorInfo(status, {"UPLOAD_UNKNOWN", {}});
    case absl::StatusCode::kOutOfRange:
      return WithErrorInfo(status, {"UPLOAD_OFFSET", {}});
    case absl::StatusCode::kDataLoss:
      return WithErrorInfo(status, {"UPLOAD_DAMAGED", {}});
    case absl::StatusCode::kFailedPrecondition:
      return WithErrorInfo(status, {"UPLOAD_TOO_LARGE",
                                    {{"hint",
                                      "ask the coordinator's operator to raise --upload-gib or to "
                                      "put the folder into --import-dir"}}});
    case absl::StatusCode::kResourceExhausted:
      return WithErrorInfo(
          status, {"UPLOAD_NO_ROOM",
                   {{"hint",
                     "received data is kept; run the same command again to resume when there is "
                     "space"}}});
    case absl::StatusCode::kUnavailable:
      return WithRetryDelay(
          WithErrorInfo(absl::ResourceExhaustedError(status.message()), {"UPLOAD_BUSY", {}}),
          kBusyRetry);
    default:
      return status;
  }
}

// Whether the file of that name in the folder is this one.
bool IsSameFile(const std::string& folder, const v1::FileIdentity& wanted) {
  struct stat info;
  if (stat(JoinPath(folder, wanted.name()).c_str(), &info) != 0) return false;
  const int64_t changed_ns = absl::ToUnixNanos(absl::TimeFromTimespec(info.st_ctim));
  return S_ISREG(info.st_mode) && info.st_size == wanted.bytes() && info.st_ino == wanted.inode() &&
         changed_ns == wanted.changed_ns();
}

absl::Status CheckFind(const v1::FindFolderRequest& request) {
  if (request.path().empty() || request.path()[0] != '/')
    return BadRequestError({{"path", "is not an absolute path"}});
  if (request.files().empty() || request.files_size() > static_cast<int>(kFolderFilesMax))
    return BadRequestError(
        {{"files", absl::StrCat("are missing, or more than ", kFolderFilesMax)}});
  for (const v1::FileIdentity& file : request.files()) {
    if (!IsPlainFileName(file.name()))
      return BadRequestError({{"files", "include a name that is not a plain file name"}});
  }
  return absl::OkStatus();
}

void Find(const ServiceContext& service, const v1::FindFolderRequest& request,
          v1::FindFolderResponse* response) {
  response->set_sight(v1::NO_FOLDER);
  v1::InitSpec init;
  init.set_folder(request.path());
  const absl::StatusOr<std::string> folder = FindImport(service, init);
  if (!folder.ok()) return;
  const bool same =
      std::all_of(request.files().begin(), request.files().end(),
                  [&](const v1::FileIdentity& file) { return IsSameFile(*folder, file); });
  response->set_sight(same ? v1::SAME_FOLDER : v1::OTHER_FOLDER);
  response->set_folder(*folder);
}

absl::Status Prepare(const ServiceContext& service, const v1::PrepareUploadRequest& request,
                     v1::PrepareUploadResponse* response) {
  LH_ASSIGN_OR_RETURN(const std::vector<FolderFile> files, AnnouncedFiles(request));
  const absl::StatusOr<Uploads::Prepared> prepared = service.uploads->Prepare(files);
  if (!prepared.ok()) return ExplainUpload(prepared.status());
  response->set_complete(prepared->complete);
  for (const ReceivedFile& file : prepared->files) {
    v1::FileProgress* progress = response->add_files();
    progress->set_bytes(file.bytes);
    progress->set_verified(file.verified);
  }
  return absl::OkStatus();
}

}  // namespace

UploadService::UploadService(const ServiceContext& service, UploadMetrics* metrics)
    : service_(service), metrics_(metrics) {}

UploadService::~UploadService() = default;

grpc::ServerUnaryReactor* UploadService::FindFolder(grpc::CallbackServerContext* context,
                                                    const v1::FindFolderRequest* request,
                                                    v1::FindFolderResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  if (const absl::Status status = CheckFind(*request); !status.ok())
    return Answered(context, status);
  return AnswerFrom(context, *service_.beside, [=, this] {
    Find(service_, *request, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* UploadService::PrepareUpload(grpc::CallbackServerContext* context,
                                                       const v1::PrepareUploadRequest* request,
                                                       v1::PrepareUploadResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerFrom(context, *service_.beside, [=, this] {
    const absl::Status prepared = Prepare(service_, *request, response);
    metrics_->Count(prepared);
    metrics_->Show(*service_.uploads);
    return prepared;
  });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* UploadService::UploadFile(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return ReceiveUploadFile(
      context, response,
      {.open =
           [uploads = service_.uploads](const v1::UploadFileRequest& first) {
             return uploads->Receive(first.upload(), first.file(), first.offset());
           },
       .explain = ExplainUpload,
       .on_taken =
           [metrics = metrics_](int64_t bytes) {
             metrics->received_bytes.With().Increment(static_cast<double>(bytes));
           },
       .on_end = [metrics = metrics_](const absl::Status& status) { metrics->Count(status); }},
      service_.bulk);
}

}  // namespace longhaul::coordinator
