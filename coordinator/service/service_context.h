// What the gRPC adapters share.
#pragma once

#include <string>

#include "common/base/task_runner.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/access/caller.h"
#include "coordinator/access/door.h"
#include "coordinator/effects/owner_thread.h"
#include "coordinator/effects/performer.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/plan_streams.h"
#include "coordinator/service/refused_call.h"
#include "coordinator/store/uploads.h"

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
  Uploads* uploads = nullptr;  // Blocks on the disk.
  // Pools are known by their certificates: the server has TLS.
  bool certificates = false;
  // Null without TLS: callers are not known.
  const Door* door = nullptr;

  PoolCaller CallerOf(const grpc::ServerContextBase& call) const { return {call, certificates}; }
  JobCaller JobCallerOf(const grpc::ServerContextBase& call) const {
    return door == nullptr ? JobCaller() : door->JobCallerOf(call);
  }
  // Folders of checkpoints that jobs may begin with lie in it. Empty: nowhere.
  std::string import_dir;
};

}  // namespace longhaul::coordinator
