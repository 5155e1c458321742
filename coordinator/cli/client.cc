#include "coordinator/cli/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/rpc/channel.h"
#include "common/rpc/deadline.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/proxy.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "common/rpc/tls_probe.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"

namespace longhaul::cli {
namespace {

using grpc::internal::RpcMethod;

constexpr int kPageSize = 100;
constexpr char kUploadMethod[] = "/longhaul.v1.UploadService/UploadFile";
constexpr char kNotAnswered[] = "longhaul.cli/not-answered";

// gRPC counts whole milliseconds from a start of its own: its timer may end a call a little before
// our clock reaches the deadline.
constexpr absl::Duration kTimerError = absl::Milliseconds(5);

constexpr char kExplained[] = "longhaul.cli/explained";
constexpr absl::Duration kExplainTime = absl::Seconds(2);

// A request that names a job.
template <typename Request>
Request OfJob(const std::string& job) {
  Request request;
  request.set_job(job);
  return request;
}

template <typename Response>
absl::StatusOr<v1::Job> JobIn(absl::StatusOr<Response> response) {
  LH_RETURN_IF_ERROR(response.status());
  return std::move(*response->mutable_job());
}

}  // namespace

absl::Status Client::ErrorOf(const grpc::Status& status, const grpc::ClientContext& context,
                             absl::Time deadline) const {
  absl::Status error = FromGrpcStatus(status);
  const bool late = absl::IsDeadlineExceeded(error) && SteadyTime() >= deadline - kTimerError;
  // Without a connection, peer() is the name that was dialled, not an address.
  const std::string peer = context.peer();
  const bool connected = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:") ||
                         absl::StartsWith(peer, "unix:");
  const bool unreached = absl::IsUnavailable(error) && !connected;
  if (absl::IsUnavailable(error)) {
    const absl::Status why =
        ExplainConnection(address_, access_.files, SteadyTime() + kExplainTime);
    if (!why.ok()) {
      error = absl::UnavailableError(why.message());
      error.SetPayload(kExplained, absl::Cord());
    }
  }
  if (unreached && !WasExplained(error)) {
    error = WithMessage(error, absl::StrCat(error.message(), ProxyNote(address_)));
  }
  if (late || unreached) error.SetPayload(kNotAnswered, absl::Cord());
  return error;
}

absl::Status Client::Prepare(grpc::ClientContext& context, absl::Time deadline) const {
  LH_RETURN_IF_ERROR(ProxyOf(address_).status());
  context.set_deadline(GrpcDeadline(deadline));
  if (access_.token_file.empty()) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const std::string token, ReadTokenFile("--token-file", access_.token_file));
  context.AddMetadata("authorization", "Bearer " + token);
  return absl::OkStatus();
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Client::Call(Stub& stub, const Request& request,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*)) {
  grpc::ClientContext context;
  const absl::Time deadline = SteadyTime() + timeout_;
  LH_RETURN_IF_ERROR(Prepare(context, deadline));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return ErrorOf(status, context, deadline);
  return response;
}

template <typename Stub, typename Request, typename Response, typename Take>
absl::Status Client::ReadAll(Stub& stub, const Request& request,
                             std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                                 grpc::ClientContext*, const Request&),
                             absl::Time deadline, const Take& on_message) {
  grpc::ClientContext context;
  LH_RETURN_IF_ERROR(Prepare(context, deadline));
  const auto stream = (stub.*method)(&context, request);
  for (Response message; stream->Read(&message);) {
    if (on_message(message)) continue;
    context.TryCancel();
    break;
  }
  const grpc::Status status = stream->Finish();
  return status.ok() ? absl::OkStatus() : ErrorOf(status, context, deadline);
}

Client::Client(std::string address, absl::Duration timeout, ClientAccess access)
    : address_(std::move(address)),
      timeout_(timeout),
      access_(std::move(access)),
      channel_(MakeChannel({.address = address_, .tls = access_.tls})) {
  jobs_ = v1::JobService::NewStub(channel_);
  pools_ = v1::PoolService::NewStub(channel_);
  server_ = v1::ServerService::NewStub(channel_);
  logs_ = v1::LogService::NewStub(channel_);
  uploads_ = v1::UploadService::NewStub(channel_);
  curves_ = v1::CurveService::NewStub(channel_);
}

absl::StatusOr<v1::SubmitJobResponse> Client::SubmitJob(const v1::SubmitJobRequest& request) {
  return Call(*jobs_, request, &v1::JobService::Stub::SubmitJob);
}

absl::StatusOr<v1::Job> Client::GetJob(const std::string& job) {
  return JobIn(Call(*jobs_, OfJob<v1::GetJobRequest>(job), &v1::JobService::Stub::GetJob));
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(int limit) {
  v1::ListJobsResponse all;
  v1::ListJobsRequest request;
  int page_size = kPageSize;
  while (all.jobs_size() < limit) {
    request.set_page_size(std::min(page_size, limit - all.jobs_size()));
    const auto page = Call(*jobs_, request, &v1::JobService::Stub::ListJobs);
    const bool too_large = absl::IsResourceExhausted(page.status()) && !RetryDelayOf(page.status());
    if (too_large && request.page_size() > 1) {
      page_size = request.page_size() / 2;
      continue;
    }
    if (!page.ok()) return page.status();
    // Empty pages would make this loop endless; the service gives none.
    if (page->jobs_size() == 0) break;
    all.mutable_jobs()->MergeFrom(page->jobs());
    if (page->next_page_token().empty()) break;
    request.set_page_token(page->next_page_token());
  }
  return all;
}

absl::StatusOr<v1::Job> Client::CancelJob(const std::string& job, const std::string& reason) {
  auto request = OfJob<v1::CancelJobRequest>(job);
  request.set_reason(reason);
  return JobIn(Call(*jobs_, request, &v1::JobService::Stub::CancelJob));
}

absl::StatusOr<v1::Job> Client::PauseJob(const std::string& job, const std::string& reason) {
  auto request = OfJob<v1::PauseJobRequest>(job);
  request.set_reason(reason);
  return JobIn(Call(*jobs_, request, &v1::JobService::Stub::PauseJob));
}

absl::StatusOr<v1::Job> Client::ResumeJob(const std::string& job) {
  return JobIn(Call(*jobs_, OfJob<v1::ResumeJobRequest>(job), &v1::JobService::Stub::ResumeJob));
}

absl::StatusOr<v1::PlanJobResponse> Client::PlanJob(const v1::PlanJobRequest& request) {
  return Call(*jobs_, request, &v1::JobService::Stub::PlanJob);
}

absl::StatusOr<v1::ListCheckpointsResponse> Client::ListCheckpoints(const std::string& job) {
  return Call(*jobs_, OfJob<v1::ListCheckpointsRequest>(job),
              &v1::JobService::Stub::ListCheckpoints);
}

absl::StatusOr<v1::GetCurvesResponse> Client::GetCurves(const v1::GetCurvesRequest& request) {
  return Call(*curves_, request, &v1::CurveService::Stub::GetCurves);
}

absl::StatusOr<v1::ListPoolsResponse> Client::ListPools() {
  v1::ListPoolsResponse all;
  v1::ListPoolsRequest request;
  do {
    LH_ASSIGN_OR_RETURN(v1::ListPoolsResponse page,
                        Call(*pools_, request, &v1::PoolService::Stub::ListPools));
    // Empty pages would make this loop endless; the service gives none.
    if (page.pools_size() == 0) break;
    all.mutable_pools()->MergeFrom(page.pools());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::DescribeResponse> Client::Describe() {
  return Call(*server_, v1::DescribeRequest(), &v1::ServerService::Stub::Describe);
}

absl::Status Client::Probe(int bytes_up, int bytes_down) {
  v1::ProbeRequest request;
  request.set_payload(std::string(bytes_up, '\0'));
  request.set_answer_bytes(bytes_down);
  return Call(*server_, request, &v1::ServerService::Stub::Probe).status();
}

absl::Status Client::WatchJob(const std::string& job, int64_t cursor, absl::Time deadline,
                              const std::function<bool(const v1::WatchJobResponse&)>& on_update,
                              std::optional<int64_t> events_after) {
  auto request = OfJob<v1::WatchJobRequest>(job);
  request.set_cursor(cursor);
  if (events_after.has_value()) request.set_events_after(*events_after);
  return ReadAll(*jobs_, request, &v1::JobService::Stub::WatchJob, deadline, on_update);
}

absl::Status Client::FollowLogs(
    const v1::FollowLogsRequest& request, absl::Time deadline,
    const std::function<bool(const v1::FollowLogsResponse&)>& on_lines) {
  return ReadAll(*logs_, request, &v1::LogService::Stub::FollowLogs, deadline, on_lines);
}

absl::StatusOr<v1::CreateCheckpointResponse> Client::CreateCheckpoint(const std::string& job) {
  return Call(*jobs_, OfJob<v1::CreateCheckpointRequest>(job),
              &v1::JobService::Stub::CreateCheckpoint);
}

absl::StatusOr<v1::DeleteJobResponse> Client::DeleteJob(const std::string& job) {
  return Call(*jobs_, OfJob<v1::DeleteJobRequest>(job), &v1::JobService::Stub::DeleteJob);
}

absl::StatusOr<v1::ListEventsResponse> Client::ListEvents(const std::string& job) {
  return Call(*jobs_, OfJob<v1::ListEventsRequest>(job), &v1::JobService::Stub::ListEvents);
}

absl::Status Client::DownloadCheckpoint(
    const v1::DownloadCheckpointRequest& request, absl::Time deadline,
    const std::function<absl::Status(const v1::DownloadCheckpointResponse&)>& on_chunk) {
  absl::Status taken;
  const absl::Status read = ReadAll(
      *jobs_, request, &v1::JobService::Stub::DownloadCheckpoint, deadline,
      [&](const v1::DownloadCheckpointResponse& chunk) { return (taken = on_chunk(chunk)).ok(); });
  return taken.ok() ? read : taken;
}

absl::StatusOr<v1::FindFolderResponse> Client::FindFolder(const v1::FindFolderRequest& request) {
  return Call(*uploads_, request, &v1::UploadService::Stub::FindFolder);
}

absl::StatusOr<v1::PrepareUploadResponse> Client::PrepareUpload(
    const v1::PrepareUploadRequest& request) {
  return Call(*uploads_, request, &v1::UploadService::Stub::PrepareUpload);
}

absl::StatusOr<v1::UploadFileResponse> Client::UploadFile(
    const v1::UploadFileRequest& first, absl::Time deadline,
    const std::function<absl::StatusOr<FilePiece>()>& next) {
  grpc::ClientContext context;
  LH_RETURN_IF_ERROR(Prepare(context, deadline));
  v1::UploadFileResponse response;
  // Serialized messages, so that a piece is not copied into one.
  using Factory = grpc::internal::ClientWriterFactory<grpc::ByteBuffer>;
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> stream(Factory::Create(
      channel_.get(), RpcMethod(kUploadMethod, RpcMethod::CLIENT_STREAMING), &context, &response));
  absl::Status failed;
  for (bool open = stream->Write(SerializeToByteBuffer(first)); open;) {
    absl::StatusOr<FilePiece> piece = next();
    if (!piece.ok()) {
      failed = piece.status();
      context.TryCancel();
    }
    if (!piece.ok() || piece->size == 0) break;
    open = stream->Write(MessageWithPayload(
        v1::UploadFileRequest(), v1::UploadFileRequest::kDataFieldNumber, *std::move(piece)));
  }
  (void)stream->WritesDone();
  const grpc::Status status = stream->Finish();
  if (!failed.ok()) return failed;
  if (!status.ok()) return ErrorOf(status, context, deadline);
  return response;
}

bool WasAnswered(const absl::Status& status) { return !status.GetPayload(kNotAnswered); }

bool WasExplained(const absl::Status& status) { return status.GetPayload(kExplained).has_value(); }

}  // namespace longhaul::cli
