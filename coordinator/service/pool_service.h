// PoolService of pool.proto: what the agents of the pools call. The contract is in the .proto.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/registry.h"
#include "coordinator/access/call_rate.h"
#include "coordinator/service/service_context.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul::coordinator {

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is
// registered with.
class PoolService final : public v1::PoolService::CallbackService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods, in
  // seconds.
  PoolService(const ServiceContext& service, MetricRegistry& registry);
  ~PoolService() override;

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context,
                                 const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest* request,
                                      v1::HeartbeatResponse* response) override;
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const v1::LeaveRequest* request,
                                  v1::LeaveResponse* response) override;
  grpc::ServerUnaryReactor* ListPools(grpc::CallbackServerContext* context,
                                      const v1::ListPoolsRequest* request,
                                      v1::ListPoolsResponse* response) override;

  // The answer of ListPools: the pools with later names than `after`, at most so many bytes of
  // them, but at least one. Owner thread.
  void List(const std::string& after, size_t bytes_max, v1::ListPoolsResponse* response) const;

 private:
  // Owner thread.
  v1::Pool Describe(const PoolView& view, absl::Time now) const;
  // Leaves in the event the evaluations that are to be stored. Returns the step up to which the
  // pool need not repeat its evaluations.
  absl::StatusOr<int64_t> TakeReport(const v1::HeartbeatRequest& request,
                                     coordinator::Heartbeat& event, v1::PoolProgress progress);
  absl::Status TakeEvaluations(const LiveJob& job, const v1::HeartbeatRequest& request,
                               coordinator::Heartbeat& event);
  // Leaves out the spec of the job `has_spec_of`. Returns the spec if it is large: Finish adds it.
  std::shared_ptr<const v1::JobSpec> Assign(const GrantLease& grant, const std::string& has_spec_of,
                                            v1::Assignment* assignment) const;
  // Keeps what a pool says of itself. False: it said so a moment ago.
  bool Remember(const v1::JoinRequest& request);
  // As Assign.
  std::shared_ptr<const v1::JobSpec> Joined(const GrantLease& grant, const v1::JoinRequest& request,
                                            v1::JoinResponse* response);
  void Beat(grpc::ServerUnaryReactor* reactor, const v1::HeartbeatRequest& request,
            v1::HeartbeatResponse* response, coordinator::Heartbeat& event,
            v1::PoolProgress progress);
  // Ends the call with ServiceContext::answers. Owner thread.
  void Reply(grpc::ServerUnaryReactor* reactor, const absl::Status& status);
  // As Reply. First another thread copies `spec`, if any, and looks up which of kept_jobs have
  // ended, but not more often than a node needs it. Then ended_jobs stays empty.
  template <typename Request, typename Response>
  void Finish(grpc::ServerUnaryReactor* reactor, const GrantLease& grant,
              std::shared_ptr<const v1::JobSpec> spec, const Request& request, Response* response);

  const ServiceContext service_;
  CallRate asks_about_kept_;
  CounterFamily& heartbeats_;
  CounterFamily& evaluations_refused_;
  // What pools said about themselves when they joined, to show to people; which start of the agent
  // said it, and when that was. Owner thread.
  struct Description {
    v1::Pool pool;
    std::string incarnation;
    absl::Time told = absl::InfinitePast();
  };
  std::map<std::string, Description> descriptions_;
};

}  // namespace longhaul::coordinator
