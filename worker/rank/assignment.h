// Parses what a rank is to do: the coordinator's Assignment, which the agent writes to standard
// input as proto JSON.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul {

// Fills in the defaults of the spec and checks it again: the coordinator may be of another version,
// and the rank relies on the spec. INVALID_ARGUMENT: the text is no Assignment, or the spec is not
// valid. UNIMPLEMENTED: this worker lacks something that the spec needs. Pure.
absl::StatusOr<v1::Assignment> ParseAssignment(absl::string_view json);

}  // namespace longhaul
