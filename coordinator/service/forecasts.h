// Forecasts of jobs, from what the coordinator knows of its pools: for PlanJob, and of each job
// when it begins to train, so that it can be compared with what is measured then.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/service/service_context.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul::coordinator {

// A forecast takes up to some tenths of a second: it is made beside the owner thread.
class Forecasts {
 public:
  // `pools`: those that are known. Owner thread. All outlive the object, which outlives the calls.
  Forecasts(const ServiceContext& service, std::function<v1::ListPoolsResponse()> pools);

  // Answers the call. On a thread of `service.beside`, since the spec's folder may be read.
  void Plan(grpc::ServerUnaryReactor* reactor, const v1::PlanJobRequest& request,
            v1::PlanJobResponse* response);

  // Makes a forecast of each job that trains and has none. Owner thread; call it about once a
  // second.
  void Look();

 private:
  struct Known {
    v1::ListPoolsResponse pools;
    v1::ListJobsResponse jobs;
  };
  using Then = std::function<void(absl::StatusOr<Known>)>;
  // Reads the newest jobs. `then` runs on the owner thread; on another one if that is refused.
  void Gather(Then then);
  void MakeFor(const std::string& job, Known known);

  const ServiceContext service_;
  const std::function<v1::ListPoolsResponse()> pools_;
  // Owner thread: jobs for which one is being made, or could not be made.
  std::set<std::string> looked_at_;
};

}  // namespace longhaul::coordinator
