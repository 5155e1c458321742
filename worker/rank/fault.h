// Classifies an error of a rank, once, where the rank knows what it was doing. Pure.
#pragma once

#include "absl/status/status.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// The beginning of messages about the model's files.
inline constexpr char kHuggingFaceField[] = "model.hf.path";

// What the rank was doing.
enum class FaultPlace {
  kAssignment,    // Reading what the agent handed over.
  kCapabilities,  // Comparing it with what this program can do.
  kMeeting,       // Connecting to the pool's other ranks.
  kPreparation,   // Opening data and device, making the model.
  kTraining,      // Steps, merges, evaluations.
  kContribution,  // Coding what is sent.
  kPlan,          // Reading what the coordinator sent.
};

// A JobError with its class, and with field and hint where something of the spec or the site is to
// be changed. `status` is not OK. SITE_FAULT unless another class is certain: to set one pool aside
// for a while costs little, to fail a job for one pool's fault costs the work of all.
//   JOB_FAULT          the spec asks for what no machine can do
//   PEER_FAULT         another rank of the pool is gone or stands still
//   COORDINATOR_FAULT  the coordinator sent what it should not have
v1::JobError DescribeFault(FaultPlace place, const v1::JobSpec& spec, const absl::Status& status);

// Whether the fault is reported to the coordinator. Else the pool starts its ranks again.
inline bool IsReported(const v1::JobError& fault) {
  return fault.fault_class() == v1::SITE_FAULT || fault.fault_class() == v1::JOB_FAULT;
}

}  // namespace longhaul
