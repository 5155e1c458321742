// A job on its way in: its spec resolved, then stored once, whatever the number of times that it is
// submitted.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "coordinator/service/runtime.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// The job that the request asks for, with every default.
//   INVALID_ARGUMENT, UNIMPLEMENTED  with a BadRequest that names every field at fault
absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request);

// Stores and admits the job, or finds the one that an earlier submission made. Owner thread; blocks
// on the disk.
//   ALREADY_EXISTS      the name is taken by a job with another spec
//   RESOURCE_EXHAUSTED  the disk is full
absl::StatusOr<v1::SubmitJobResponse> Submit(Runtime& runtime, ResolvedJob resolved,
                                             const std::string& token);

}  // namespace longhaul::coordinator
