// What the gRPC adapters share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "common/base/task_runner.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/access/caller.h"
#include "coordinator/access/door.h"
#include "coordinator/effects/control_plane.h"
#include "coordinator/effects/owner_thread.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/plan_streams.h"
#include "coordinator/service/refused_call.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {

// Values; what they point to outlives the server that the adapters are registered with.
struct ServiceContext {
  OwnerThread* owner = nullptr;
  // Owner thread, except where it says otherwise.
  ControlPlane* control = nullptr;
  PlanStreams* plan_streams = nullptr;
  JobWatchers* watchers = nullptr;
  // Reads files, so that the owner thread does not wait for the disk. A user's folder may take
  // long, so the executor of the bulk streams is another one.
  TaskRunner* beside = nullptr;
  // Reads the database, a little at a time, for calls that may take long. Nothing of a user's can
  // hold it up.
  TaskRunner* reader = nullptr;
  // Sends answers to pools. Writing to a socket costs several times what the owner thread needs for
  // a heartbeat.
  TaskRunner* answers = nullptr;
  BulkResources bulk;
  Uploads* uploads = nullptr;  // Blocks on the disk.
  // Certificates identify pools: the server has TLS.
  bool certificates = false;
  // Null without TLS, where callers are not identified.
  const Door* door = nullptr;

  PoolCaller CallerOf(const grpc::ServerContextBase& call) const { return {call, certificates}; }
  JobCaller JobCallerOf(const grpc::ServerContextBase& call) const {
    return door == nullptr ? JobCaller() : door->JobCallerOf(call);
  }
  // The bytes that the states of jobs may take (CoordinatorOptions::memory).
  int64_t memory = std::numeric_limits<int64_t>::max();
  // The folder that has folders of checkpoints with which jobs may begin. Empty: there is none.
  std::string import_dir;
};

}  // namespace longhaul::coordinator
