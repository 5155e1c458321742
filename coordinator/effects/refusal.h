// Turns the core's refusals into those of the contract (canonical codes with ErrorInfo and
// RetryInfo), and errors into faults of jobs. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/decision.h"
#include "coordinator/job/job_fault.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal);
// UNAVAILABLE: the performer halted.
Refuse HaltedRefusal();
// RESOURCE_EXHAUSTED, with RetryInfo.
absl::Status DiskFullError(absl::string_view why);
Refuse DiskFullRefusal(absl::string_view why, absl::Duration retry_after);
// NOT_FOUND, JOB_UNKNOWN.
absl::Status NoSuchJob(absl::string_view name_or_id);
// RESOURCE_EXHAUSTED, with RetryInfo: too many calls wait for the owner thread.
absl::Status Overloaded();

// The fault of a job that met this error while it did `what`.
JobFault FaultOf(const absl::Status& status, absl::string_view what, absl::string_view hint);

}  // namespace longhaul::coordinator
