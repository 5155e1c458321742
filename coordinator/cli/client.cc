#include "coordinator/cli/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "grpcpp/client_context.h"

namespace longhaul::cli {
namespace {

constexpr int kPageSize = 100;
constexpr char kNotAnswered[] = "longhaul.cli/not-answered";

// The status of a call that failed.
absl::Status ErrorOf(const grpc::Status& status, const grpc::ClientContext& context,
                     absl::Time deadline) {
  absl::Status error = FromGrpcStatus(status);
  const bool late = absl::IsDeadlineExceeded(error) && absl::Now() >= deadline;
  // Without a connection the peer is what was dialled, not where it led to.
  const std::string peer = context.peer();
  const bool connected = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:") ||
                         absl::StartsWith(peer, "unix:");
  const bool unreached = absl::IsUnavailable(error) && !connected;
  if (late || unreached) error.SetPayload(kNotAnswered, absl::Cord());
  return error;
}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub, absl::Duration timeout, const Request& request,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*)) {
  grpc::ClientContext context;
  const absl::Time deadline = absl::Now() + timeout;
  context.set_deadline(absl::ToChronoTime(deadline));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return ErrorOf(status, context, deadline);
  return response;
}

}  // namespace

Client::Client(std::string address, absl::Duration timeout, std::shared_ptr<const Tls> tls)
    : address_(std::move(address)), timeout_(timeout) {
  const auto channel = MakeChannel({.address = address_, .tls = std::move(tls)});
  jobs_ = v1::JobService::NewStub(channel);
  pools_ = v1::PoolService::NewStub(channel);
  server_ = v1::ServerService::NewStub(channel);
  logs_ = v1::LogService::NewStub(channel);
}

absl::StatusOr<v1::SubmitJobResponse> Client::SubmitJob(const v1::SubmitJobRequest& request) {
  return Call(*jobs_, timeout_, request, &v1::JobService::Stub::SubmitJob);
}

absl::StatusOr<v1::Job> Client::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  LH_ASSIGN_OR_RETURN(v1::GetJobResponse response,
                      Call(*jobs_, timeout_, request, &v1::JobService::Stub::GetJob));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(int limit) {
  v1::ListJobsResponse all;
  v1::ListJobsRequest request;
  int page_size = kPageSize;
  while (all.jobs_size() < limit) {
    request.set_page_size(std::min(page_size, limit - all.jobs_size()));
    const auto page = Call(*jobs_, timeout_, request, &v1::JobService::Stub::ListJobs);
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
  v1::CancelJobRequest request;
  request.set_job(job);
  request.set_reason(reason);
  LH_ASSIGN_OR_RETURN(v1::CancelJobResponse response,
                      Call(*jobs_, timeout_, request, &v1::JobService::Stub::CancelJob));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::ListCheckpointsResponse> Client::ListCheckpoints(const std::string& job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  return Call(*jobs_, timeout_, request, &v1::JobService::Stub::ListCheckpoints);
}

absl::StatusOr<v1::ListPoolsResponse> Client::ListPools() {
  return Call(*pools_, timeout_, v1::ListPoolsRequest(), &v1::PoolService::Stub::ListPools);
}

absl::StatusOr<v1::DescribeResponse> Client::Describe() {
  return Call(*server_, timeout_, v1::DescribeRequest(), &v1::ServerService::Stub::Describe);
}

absl::Status Client::Probe(int bytes_up, int bytes_down) {
  v1::ProbeRequest request;
  request.set_payload(std::string(bytes_up, '\0'));
  request.set_answer_bytes(bytes_down);
  return Call(*server_, timeout_, request, &v1::ServerService::Stub::Probe).status();
}

absl::Status Client::WatchJob(const std::string& job, int64_t cursor, absl::Time deadline,
                              const std::function<bool(const v1::WatchJobResponse&)>& on_update) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  v1::WatchJobRequest request;
  request.set_job(job);
  request.set_cursor(cursor);
  const auto stream = jobs_->WatchJob(&context, request);
  for (v1::WatchJobResponse update; stream->Read(&update);) {
    if (!on_update(update)) context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  return status.ok() ? absl::OkStatus() : ErrorOf(status, context, deadline);
}

absl::Status Client::FollowLogs(
    const v1::FollowLogsRequest& request, absl::Time deadline,
    const std::function<bool(const v1::FollowLogsResponse&)>& on_lines) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  const auto stream = logs_->FollowLogs(&context, request);
  for (v1::FollowLogsResponse lines; stream->Read(&lines);) {
    if (!on_lines(lines)) context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  return status.ok() ? absl::OkStatus() : ErrorOf(status, context, deadline);
}

bool WasAnswered(const absl::Status& status) { return !status.GetPayload(kNotAnswered); }

}  // namespace longhaul::cli
