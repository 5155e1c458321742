// What the gRPC adapters share.
#pragma once

#include <string>

#include "common/base/task_runner.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/access/caller.h"
#include "coordinator/effects/owner_thread.h"
#include "coordinator/effects/performer.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/plan_streams.h"

namespace longhaul::coordinator {

// Values; what they point to outlives the server that the adapters are registered with.
struct ServiceContext {
  OwnerThread* owner = nullptr;
  // Owner thread, but for what it says.
  Performer* performer = nullptr;
  PlanStreams* plan_streams = nullptr;
  JobWatchers* watchers = nullptr;
  // For reading files without holding up the owner thread.
  TaskRunner* beside = nullptr;
  BulkResources bulk;
  // Pools are known by their certificates: the server has TLS.
  bool certificates = false;

  PoolCaller CallerOf(const grpc::ServerContextBase& call) const { return {call, certificates}; }
  // Folders of checkpoints that jobs may begin with lie in it. Empty: nowhere.
  std::string import_dir;
};

}  // namespace longhaul::coordinator
