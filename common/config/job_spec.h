// From the JobSpec that a user wrote to the job that runs: defaults filled in, everything checked,
// the model laid out, cut into fragments and scheduled. The coordinator resolves each submitted job
// with this and nothing else, so that a job that was accepted can run. Pure: no file, clock or
// thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/spec_violation.h"
#include "common/config/transformer_spec.h"
#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"
#include "common/partition/partition_map.h"
#include "common/schedule/schedule.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

struct ResolvedJob {
  v1::JobSpec spec;  // With every default of job.proto filled in.
  ModelLayout model;
  std::vector<FragmentLayout> fragments;
  std::vector<FragmentSchedule> schedule;  // Of fragments, in the same order.
  std::vector<std::string> warnings;       // Accepted, but probably not what was meant.
};

// Resolving a resolved spec gives the same spec. On error `violations`, if not null, gets every
// field at fault; the status is that of ViolationsToStatus:
//   INVALID_ARGUMENT  a field is missing, impossible or contradicts another
//   UNIMPLEMENTED     all fields are well formed, but at least one asks for what is not built yet
absl::StatusOr<ResolvedJob> ResolveJobSpec(const v1::JobSpec& spec,
                                           std::vector<SpecViolation>* violations = nullptr);

// The map that the engine takes. INVALID_ARGUMENT: no preset has this name.
absl::StatusOr<PartitionMap> PartitionOf(const v1::PartitionSpec& spec);

}  // namespace longhaul
