// Resolves and checks the spec of a submitted job.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/rpc/status_details.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// The job that the request asks for, with every default.
//   INVALID_ARGUMENT, UNIMPLEMENTED  with a BadRequest that names every field at fault
absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request);

// For a BadRequest.
std::vector<FieldViolation> ToFieldViolations(const std::vector<SpecViolation>& violations);

}  // namespace longhaul::coordinator
