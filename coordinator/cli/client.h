// The coordinator as the CLI calls it: blocking calls, each with a deadline.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/io/file_pieces.h"
#include "common/rpc/tls.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/sync_stream.h"
#include "longhaul/v1/curves.grpc.pb.h"
#include "longhaul/v1/job.grpc.pb.h"
#include "longhaul/v1/logs.grpc.pb.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "longhaul/v1/server.grpc.pb.h"
#include "longhaul/v1/upload.grpc.pb.h"

namespace longhaul::cli {

// How the coordinator and this user identify each other.
struct ClientAccess {
  // Null: plaintext.
  std::shared_ptr<const Tls> tls;
  // The files of `tls`, to explain a connection that failed.
  TlsFiles files;
  // Read for each call. Empty: none.
  std::string token_file;
};

// No attempt to connect takes longer: gRPC waits up to 2 minutes for the address of a name, and
// 10 s for each address (common/rpc/channel.cc). The Python client has the same.
inline constexpr absl::Duration kConnectMax = absl::Minutes(3);
// How long a command that has had an answer goes on without another one.
inline constexpr absl::Duration kSilentMax = absl::Minutes(10);
// A stream is opened again after this time. The server refuses longer ones, so that none waits for
// ever for a peer that has forgotten it.
inline constexpr absl::Duration kStreamMax = absl::Minutes(30);
// Whether a stream that ended after this time was open, even if nothing came.
inline bool WasOpen(absl::Duration lasted) { return lasted > kConnectMax; }

// Errors are the server's, with their details (common/rpc/status_details.h); UNAVAILABLE also when
// there is no connection, DEADLINE_EXCEEDED when `timeout` has passed. WasAnswered says whether a
// server gave them. Not thread-safe.
class Client {
 public:
  // `address`: host:port. `timeout`: of each call.
  Client(std::string address, absl::Duration timeout, ClientAccess access);

  absl::StatusOr<v1::SubmitJobResponse> SubmitJob(const v1::SubmitJobRequest& request);
  // UNIMPLEMENTED: an earlier version of the coordinator.
  absl::StatusOr<v1::PlanJobResponse> PlanJob(const v1::PlanJobRequest& request);
  absl::StatusOr<v1::Job> GetJob(const std::string& job);
  // Newest first, page by page, at most `limit`. A page that does not fit in a message is asked for
  // again in smaller ones.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(int limit);
  absl::StatusOr<v1::Job> CancelJob(const std::string& job, const std::string& reason);
  absl::StatusOr<v1::Job> PauseJob(const std::string& job, const std::string& reason);
  absl::StatusOr<v1::Job> ResumeJob(const std::string& job);
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& job);
  absl::StatusOr<v1::ListPoolsResponse> ListPools();
  absl::StatusOr<v1::DescribeResponse> Describe();
  // Sends so many bytes and takes so many; at most 1 MiB each.
  absl::Status Probe(int bytes_up, int bytes_down);
  // One stream. `on_update` gets each message. The call ends with the stream, at `deadline` (of
  // SteadyTime, as below), or when `on_update` returns false (CANCELLED). `events_after`: without
  // it no events come.
  absl::Status WatchJob(const std::string& job, int64_t cursor, absl::Time deadline,
                        const std::function<bool(const v1::WatchJobResponse&)>& on_update,
                        std::optional<int64_t> events_after = std::nullopt);
  // The same for log lines.
  absl::Status FollowLogs(const v1::FollowLogsRequest& request, absl::Time deadline,
                          const std::function<bool(const v1::FollowLogsResponse&)>& on_lines);
  absl::StatusOr<v1::CreateCheckpointResponse> CreateCheckpoint(const std::string& job);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const std::string& job);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const std::string& job);
  // One stream, until the end of the file or `deadline`. An error of `on_chunk` ends it, and is
  // returned.
  absl::Status DownloadCheckpoint(
      const v1::DownloadCheckpointRequest& request, absl::Time deadline,
      const std::function<absl::Status(const v1::DownloadCheckpointResponse&)>& on_chunk);
  // UNIMPLEMENTED: an earlier version of the coordinator.
  absl::StatusOr<v1::GetCurvesResponse> GetCurves(const v1::GetCurvesRequest& request);
  absl::StatusOr<v1::FindFolderResponse> FindFolder(const v1::FindFolderRequest& request);
  absl::StatusOr<v1::PrepareUploadResponse> PrepareUpload(const v1::PrepareUploadRequest& request);
  // One stream: `first`, then what `next` gives, at most 1 MiB each, until it gives nothing or the
  // server takes no more. An error of `next` ends it and is returned.
  absl::StatusOr<v1::UploadFileResponse> UploadFile(
      const v1::UploadFileRequest& first, absl::Time deadline,
      const std::function<absl::StatusOr<FilePiece>()>& next);

  const std::string& address() const { return address_; }

 private:
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(Stub& stub, const Request& request,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*));
  // Reads a stream to its end; it also ends when `on_message` returns false.
  template <typename Stub, typename Request, typename Response, typename Take>
  absl::Status ReadAll(Stub& stub, const Request& request,
                       std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(
                           grpc::ClientContext*, const Request&),
                       absl::Time deadline, const Take& on_message);
  // Sets the deadline, in steady time, and adds the token.
  absl::Status Prepare(grpc::ClientContext& context, absl::Time deadline) const;
  // The error of a call that failed.
  absl::Status ErrorOf(const grpc::Status& status, const grpc::ClientContext& context,
                       absl::Time deadline) const;

  const std::string address_;
  const absl::Duration timeout_;
  const ClientAccess access_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::PoolService::Stub> pools_;
  std::unique_ptr<v1::ServerService::Stub> server_;
  std::unique_ptr<v1::LogService::Stub> logs_;
  std::unique_ptr<v1::UploadService::Stub> uploads_;
  std::unique_ptr<v1::CurveService::Stub> curves_;
};

// Whether the error came from a server, as far as this program can know. False if no server was
// reached, or none answered in time.
bool WasAnswered(const absl::Status& status);
// Whether the message says why a connection failed, and what to do.
bool WasExplained(const absl::Status& status);

}  // namespace longhaul::cli
