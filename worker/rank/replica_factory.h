// Makes the replica that trains a job's spec on this rank.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/patience.h"
#include "common/base/thread_team.h"
#include "longhaul/v1/job.pb.h"
#include "worker/data/data_warning.h"
#include "worker/replica/replica.h"

namespace longhaul {

class Communicator;

struct ReplicaOptions {
  // With every default filled in, as the coordinator sends it.
  v1::JobSpec spec;
  // The pool's ordinal in the job.
  int ordinal = 0;
  // The number of the rank's device.
  int local_rank = 0;
  int threads = 1;
  // Has `threads` threads. Null: the replica makes one.
  std::shared_ptr<ThreadTeam> team = nullptr;
  // The pool's name. A pool may have data of its own.
  std::string pool;
  // Relative data paths begin here.
  std::string data_dir;
  // The folder for tokens that are made from text.
  std::string work_dir;
  // Of sources with the tokenizer `model`. Empty: the folder of model.hf.
  std::string tokenizer_folder = {};
  // See TokenWork.
  std::function<void(const std::string&)> on_wait;
  // Receives what is probably a mistake, in words.
  std::function<void(const DataWarning&)> on_warning = nullptr;
  // Outlives the replica. Null with one rank.
  Communicator* communicator = nullptr;
  bool communicator_on_device = false;
  // How many ranks each node of the pool has. Empty: there is one node.
  std::vector<int> ranks_of_node;
  // See OffloadSettings. Empty: none.
  std::string update_rates_path;
  // The file for a timeline of the engine. Empty: none.
  std::string trace_path;
  absl::Duration collective_timeout = absl::Hours(1);
  // For a wait for this rank's own device, data or threads.
  Patience patience = absl::Minutes(5);
};

// CheckCapabilities must have accepted the spec. Blocks: it opens data, and may make tokens from
// text. Errors: those of TorchReplica::Create and SyntheticReplica::Create.
absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options);

}  // namespace longhaul
