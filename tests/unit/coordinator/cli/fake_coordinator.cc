#include "fake_coordinator.h"

#include <algorithm>
#include <atomic>

namespace longhaul::cli {
namespace {

template <typename Handler, typename Request, typename Response>
grpc::Status Answer(const Handler& handler, const Request* request, Response* response) {
  if (!handler) return {grpc::StatusCode::UNIMPLEMENTED, "not set in this test"};
  return handler(*request, response);
}

}  // namespace

class FakeCoordinator::Curves : public v1::CurveService::Service {
 public:
  explicit Curves(const FakeCoordinator& fake) : fake_(fake) {}
  grpc::Status GetCurves(grpc::ServerContext*, const v1::GetCurvesRequest* request,
                         v1::GetCurvesResponse* response) override {
    return Answer(fake_.curves, request, response);
  }

 private:
  const FakeCoordinator& fake_;
};

class FakeCoordinator::Jobs : public v1::JobService::Service {
 public:
  explicit Jobs(const FakeCoordinator& fake) : fake_(fake) {}
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override {
    return Answer(fake_.submit, request, response);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    return Answer(fake_.get, request, response);
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return Answer(fake_.list, request, response);
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    return Answer(fake_.cancel, request, response);
  }
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                        v1::PauseJobResponse* response) override {
    return Answer(fake_.pause, request, response);
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::ResumeJobResponse* response) override {
    return Answer(fake_.resume, request, response);
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    return Answer(fake_.checkpoints, request, response);
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::WatchJobResponse>* writer) override {
    if (fake_.streams.empty()) return {grpc::StatusCode::UNIMPLEMENTED, "not set in this test"};
    const size_t stream = std::min(next_stream_++, fake_.streams.size() - 1);
    return fake_.streams[stream](
        *request, [&](const v1::WatchJobResponse& update) { return writer->Write(update); },
        [&] { return context->IsCancelled(); });
  }

 private:
  const FakeCoordinator& fake_;
  std::atomic<size_t> next_stream_ = 0;
};

class FakeCoordinator::Pools : public v1::PoolService::Service {
 public:
  explicit Pools(const FakeCoordinator& fake) : fake_(fake) {}
  grpc::Status ListPools(grpc::ServerContext*, const v1::ListPoolsRequest* request,
                         v1::ListPoolsResponse* response) override {
    return Answer(fake_.pools, request, response);
  }

 private:
  const FakeCoordinator& fake_;
};

class FakeCoordinator::Logs : public v1::LogService::Service {
 public:
  explicit Logs(const FakeCoordinator& fake) : fake_(fake) {}
  grpc::Status FollowLogs(grpc::ServerContext*, const v1::FollowLogsRequest*,
                          grpc::ServerWriter<v1::FollowLogsResponse>*) override {
    if (!fake_.logs) return {grpc::StatusCode::UNIMPLEMENTED, "not set in this test"};
    return fake_.logs();
  }

 private:
  const FakeCoordinator& fake_;
};

FakeCoordinator::FakeCoordinator() = default;
FakeCoordinator::~FakeCoordinator() = default;

void FakeCoordinator::Start() {
  curves_ = std::make_unique<Curves>(*this);
  jobs_ = std::make_unique<Jobs>(*this);
  logs_ = std::make_unique<Logs>(*this);
  pools_ = std::make_unique<Pools>(*this);
  server_ = Server::Start({}, {curves_.get(), jobs_.get(), logs_.get(), pools_.get()}).value();
}

}  // namespace longhaul::cli
