// JobService of job.proto: what people and their tools call. The contract is in the .proto.
#pragma once

#include "coordinator/service/service_context.h"
#include "longhaul/v1/job.grpc.pb.h"

namespace longhaul::coordinator {

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is registered with.
class JobService final : public v1::JobService::CallbackService {
 public:
  explicit JobService(const ServiceContext& service) : service_(service) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;

 private:
  absl::Status Get(const std::string& name_or_id, v1::Job* job);

  const ServiceContext service_;
};

}  // namespace longhaul::coordinator
