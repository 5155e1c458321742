// From the JobSpec that a user wrote to the job that runs: fills in defaults, checks everything,
// lays the model out, cuts it into fragments, and schedules them. The coordinator resolves each
// submitted job only with this, so a job that was accepted can run. Pure: no file, clock or thread.
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
  // With every default of job.proto filled in.
  v1::JobSpec spec;
  ModelLayout model;
  std::vector<FragmentLayout> fragments;
  // One for each fragment, in the same order.
  std::vector<FragmentSchedule> schedule;
  // Settings that are accepted, but are probably mistakes.
  std::vector<std::string> warnings;
  // Likewise, of the parameters that the job begins with, and of the pools that are there; not of
  // the spec alone.
  std::vector<std::string> beginning_warnings;
};

// Resolving a resolved spec gives the same spec. On error `violations`, if not null, receives every
// wrong field, and the status is that of ViolationsToStatus:
//   INVALID_ARGUMENT  a field is missing, impossible or contradicts another
//   UNIMPLEMENTED     all fields are well formed, but one or more need something that is not
//                     built
absl::StatusOr<ResolvedJob> ResolveJobSpec(const v1::JobSpec& spec,
                                           std::vector<SpecViolation>* violations = nullptr);

// The report of a job that is not stored: its spec, fragments and warnings; PENDING. Pure.
v1::Job UnstoredJob(const ResolvedJob& resolved);
// The same without the spec, which may be large.
v1::Job ReportWithoutSpec(const ResolvedJob& resolved);

// What to tell of a job that goes on with a model, but not as it was trained: in whether attention
// keeps to documents. Empty: nothing. `field`: the one that names the model. Pure.
std::string WarningOfDocuments(const std::string& field, bool trained_separate,
                               const v1::DataSpec& data);

// What to tell of a job of which some pools take the default source of data, while data.pools has
// names that none of its pools has: a name may be misspelt. Empty: nothing. `pools`: the names of
// those that are there. Pure.
std::string WarningOfPoolNames(const v1::JobSpec& spec, const std::vector<std::string>& pools);

// The map for the engine. INVALID_ARGUMENT: no preset has this name.
absl::StatusOr<PartitionMap> PartitionOf(const v1::PartitionSpec& spec);

}  // namespace longhaul
