// From a job's spec to the replica that trains it on this rank.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "longhaul/v1/job.pb.h"
#include "worker/replica/replica.h"

namespace longhaul {

class Communicator;

struct ReplicaOptions {
  v1::JobSpec spec;    // With every default filled in, as the coordinator sends it.
  int ordinal = 0;     // Of the pool in the job.
  int local_rank = 0;  // Picks the device.
  int threads = 1;
  std::string data_dir;                  // Relative data paths begin here.
  Communicator* communicator = nullptr;  // Null with one rank. Outlives the replica.
  bool communicator_on_device = false;
  absl::Duration collective_timeout = absl::Hours(1);
};

// Errors: those of TorchReplica::Create and SyntheticReplica::Create. UNIMPLEMENTED: a model that
// this worker lacks.
absl::StatusOr<std::unique_ptr<Replica>> MakeReplica(const ReplicaOptions& options);

// What of the spec an error of MakeReplica is about, and what to do: a JobError to report. `status`
// is not OK.
v1::JobError DescribeFault(const v1::JobSpec& spec, const absl::Status& status);

}  // namespace longhaul
