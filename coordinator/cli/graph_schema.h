// Graphs of a spec on the submitting machine: what all sites must have in common comes from there.
#pragma once

#include <vector>

#include "common/config/spec_violation.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// Reads the manifests of those graphs of the spec (absolute, or relative to the current folder)
// that are here. Fills in model.graph_sage.columns and classes, and data.graph_schema, where they
// are left out. Returns what is wrong: a manifest that cannot be read, graphs that differ from each
// other or from the spec; the spec is then unusable. Other specs are not changed. Blocks.
std::vector<SpecViolation> ResolveGraphSchema(v1::JobSpec& spec);

}  // namespace longhaul::cli
