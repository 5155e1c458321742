// A coordinator for tests of the CLI: real gRPC on a free port of localhost, answers that the test
// sets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/server.h"
#include "longhaul/v1/curves.grpc.pb.h"
#include "longhaul/v1/job.grpc.pb.h"
#include "longhaul/v1/logs.grpc.pb.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul::cli {

// Handlers that are not set answer UNIMPLEMENTED.
class FakeCoordinator {
 public:
  FakeCoordinator();
  ~FakeCoordinator();

  template <typename Request, typename Response>
  using Handler = std::function<grpc::Status(const Request&, Response*)>;
  // One handler for each stream in turn; the last serves all that follow.
  using Stream = std::function<grpc::Status(
      const v1::WatchJobRequest&, const std::function<bool(const v1::WatchJobResponse&)>& send,
      const std::function<bool()>& cancelled)>;

  Handler<v1::SubmitJobRequest, v1::SubmitJobResponse> submit;
  Handler<v1::GetJobRequest, v1::GetJobResponse> get;
  Handler<v1::ListJobsRequest, v1::ListJobsResponse> list;
  Handler<v1::CancelJobRequest, v1::CancelJobResponse> cancel;
  Handler<v1::PauseJobRequest, v1::PauseJobResponse> pause;
  Handler<v1::ResumeJobRequest, v1::ResumeJobResponse> resume;
  Handler<v1::ListCheckpointsRequest, v1::ListCheckpointsResponse> checkpoints;
  Handler<v1::ListPoolsRequest, v1::ListPoolsResponse> pools;
  Handler<v1::GetCurvesRequest, v1::GetCurvesResponse> curves;
  std::vector<Stream> streams;
  // Sends no lines; called for each stream.
  std::function<grpc::Status()> logs;

  // Serves from now on; handlers must not change any more.
  void Start();
  const std::string& address() const { return server_->address(); }

 private:
  class Curves;
  class Jobs;
  class Logs;
  class Pools;
  std::unique_ptr<Curves> curves_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<Logs> logs_;
  std::unique_ptr<Pools> pools_;
  std::unique_ptr<Server> server_;
};

}  // namespace longhaul::cli
