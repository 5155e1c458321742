// From a job's spec to the replica that trains it on this rank.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "longhaul/v1/job.pb.h"
#include "worker/replica/replica.h"

namespace longhaul {

class Communicator;

struct ReplicaOptions {
  v1::JobSpec spec;    // With every default filled in, as the coordinator sends it.
  int ordinal = 0;     // Of the pool in the job.
  int local_rank = 0;  // Picks the device.
  int threads = 1;
  std::shared_ptr<ThreadTeam> team = nullptr;  // As many threads. Null: the replica has its own.
  std::string pool;                            // Its name: it may have data of its own.
  std::string data_dir;                        // Relative data paths begin here.
  std::string work_dir;                        // Of tokens that are made of text.
  std::function<void(const std::string&)> on_wait;  // Of TokenWork.
  Communicator* communicator = nullptr;             // Null with one rank. Outlives the replica.
  bool communicator_on_device = false;
  std::vector<int> ranks_of_node;  // Of the pool. Empty: one node.
  std::string update_rates_path;   // Of OffloadSettings. Empty: none.
  std::string trace_path;          // Of a timeline of a torch model's engine. Empty: none.
  absl::Duration collective_timeout = absl::Hours(1);
};

// What the spec needs has been checked (capabilities.h). Errors: those of TorchReplica::Create and
// SyntheticReplica::Create.
absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options);

}  // namespace longhaul
