// What a rank is to do, as its agent writes it to standard input: the coordinator's Assignment in
// proto JSON.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul {

// The spec of the result has its defaults and was checked again: the coordinator may be another
// program than this one, and what follows takes the spec as it is. INVALID_ARGUMENT: not an
// Assignment, or one that cannot be. UNIMPLEMENTED: this worker lacks what the spec asks for.
absl::StatusOr<v1::Assignment> ParseAssignment(absl::string_view json);

}  // namespace longhaul
