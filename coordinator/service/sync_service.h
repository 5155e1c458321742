// SyncService of sync.proto: what the ranks call. Plans over generated code, bulk streams over
// common/rpc. The contract is in the .proto.
#pragma once

#include "common/rpc/fragment_server.h"
#include "coordinator/service/service_context.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul::coordinator {

// The callback service whose bulk methods take and give serialized messages.
using RawSyncService = v1::SyncService::WithRawCallbackMethod_PushFragment<
    v1::SyncService::WithRawCallbackMethod_PullFragment<
        v1::SyncService::WithCallbackMethod_GetContribution<
            v1::SyncService::WithCallbackMethod_GetTokenizer<
                v1::SyncService::WithCallbackMethod_WatchPlan<v1::SyncService::Service>>>>>;

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is
// registered with.
class SyncService final : public RawSyncService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods, in
  // seconds.
  explicit SyncService(const ServiceContext& service);
  ~SyncService() override;

  grpc::ServerWriteReactor<v1::PlanEvent>* WatchPlan(grpc::CallbackServerContext* context,
                                                     const v1::WatchPlanRequest* request) override;
  grpc::ServerUnaryReactor* GetContribution(grpc::CallbackServerContext* context,
                                            const v1::GetContributionRequest* request,
                                            v1::GetContributionResponse* response) override;
  grpc::ServerUnaryReactor* GetTokenizer(grpc::CallbackServerContext* context,
                                         const v1::GetTokenizerRequest* request,
                                         v1::GetTokenizerResponse* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* PushFragment(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* PullFragment(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override;

 private:
  const ServiceContext service_;
};

}  // namespace longhaul::coordinator
