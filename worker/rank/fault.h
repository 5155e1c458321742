// Classifies an error of a rank by its marks (common/base/status_marks.h) and by what the rank was
// doing. Pure.
#pragma once

#include "absl/status/status.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// What errors about the model name.
inline constexpr char kHuggingFaceField[] = "model.hf.path";
inline constexpr char kDataMayChangeField[] = "data.may_change";
inline constexpr char kSyntheticField[] = "model.synthetic";

// What the rank was doing.
enum class FaultOrigin {
  // Reading the assignment.
  kAssignment,
  // Comparing it with what this program can do.
  kCapabilities,
  // Connecting to the pool's other ranks.
  kMeeting,
  // Opening data and device, making the model.
  kPreparation,
  // Steps, merges, evaluations.
  kTraining,
  // Coding a contribution.
  kContribution,
  // Reading a message of the coordinator.
  kPlan,
};

// Makes a JobError that can be sent, with a class, and with field and hint if the user can change
// something in the spec or at the site. `status` is not OK. The class is SITE_FAULT unless another
// one is certain: setting one pool aside for a while costs little, but failing a job for one pool's
// fault costs the work of all pools.
//   JOB_FAULT          no machine can do what the spec asks for
//   PEER_FAULT         another rank of the pool is gone or makes no progress: the status says so
//                      (MarkPeerFault), or the ranks were meeting
//   COORDINATOR_FAULT  the coordinator sent something that is not valid
v1::JobError DescribeFault(FaultOrigin origin, const v1::JobSpec& spec, const absl::Status& status);

// Whether the fault is reported to the coordinator. Otherwise the pool starts its ranks again.
inline bool IsReported(const v1::JobError& fault) {
  return fault.fault_class() == v1::SITE_FAULT || fault.fault_class() == v1::JOB_FAULT;
}

}  // namespace longhaul
