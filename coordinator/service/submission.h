// Resolves and checks the spec of a submitted job.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/rpc/status_details.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// The job that the request asks for, with every default. `memory`: the bytes that the states of all
// jobs may take.
//   INVALID_ARGUMENT, UNIMPLEMENTED  with a BadRequest that names every field at fault
absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request, int64_t memory);

// For a BadRequest.
std::vector<FieldViolation> ToFieldViolations(const std::vector<SpecViolation>& violations);

}  // namespace longhaul::coordinator
