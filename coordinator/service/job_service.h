// JobService of job.proto: what people and their tools call. The contract is in the .proto.
#pragma once

#include <functional>
#include <string>

#include "coordinator/service/forecasts.h"
#include "coordinator/service/service_context.h"
#include "longhaul/v1/job.grpc.pb.h"

namespace longhaul::coordinator {

// The callback service whose downloads give serialized messages.
using RawJobService =
    v1::JobService::WithRawCallbackMethod_DownloadCheckpoint<v1::JobService::CallbackService>;

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is
// registered with.
class JobService final : public RawJobService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods, in
  // seconds.
  JobService(const ServiceContext& service, Forecasts* forecasts);
  ~JobService() override;

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* PlanJob(grpc::CallbackServerContext* context,
                                    const v1::PlanJobRequest* request,
                                    v1::PlanJobResponse* response) override;
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
  // job_pause.cc.
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::PauseJobResponse* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::ResumeJobResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  // job_results.cc: what jobs leave.
  grpc::ServerUnaryReactor* CreateCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::CreateCheckpointRequest* request,
                                             v1::CreateCheckpointResponse* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* DownloadCheckpoint(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      v1::DeleteJobResponse* response) override;
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context,
                                       const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override;

 private:
  // Answers, at once or from the owner thread.
  void Submit(grpc::ServerUnaryReactor* reactor, const v1::SubmitJobRequest* request,
              v1::SubmitJobResponse* response, ResolvedJob resolved, const std::string& owner);
  absl::Status Get(const std::string& name_or_id, v1::Job* job);
  // What answers a call that changes a job, on the owner thread: `change`, or a refusal (as of
  // FindJobToChange). `caller`: who calls.
  using Answering = std::function<void(grpc::ServerUnaryReactor* reactor)>;
  using Change = std::function<void(grpc::ServerUnaryReactor* reactor, const JobRecord& record,
                                    const std::string& caller)>;
  Answering ToChange(const grpc::CallbackServerContext& context, const std::string& name_or_id,
                     Change change);
  // Does the command about the job, and answers with the job. `if_ended`: the hint if
  // it has ended. Owner thread.
  void ChangePause(grpc::ServerUnaryReactor* reactor, const JobRecord& record,
                   const std::string& if_ended, const Command& command, v1::Job* job);
  // NOT_FOUND; PERMISSION_DENIED: it is somebody else's. Owner thread.
  absl::StatusOr<JobRecord> FindJobToChange(const std::string& name_or_id, const JobCaller& caller);

  const ServiceContext service_;
  Forecasts* const forecasts_;
};

}  // namespace longhaul::coordinator
