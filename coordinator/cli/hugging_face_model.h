// `model.hf` of a spec on the submitting machine: the model's shape comes from config.json there.
#pragma once

#include <vector>

#include "common/config/spec_violation.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// Writes out model.transformer, if model.hf is given and its folder (absolute, or relative to the
// current one) is here. What the spec says itself must be what config.json says; context and positions
// are free. Returns what is wrong; the spec is then as it was. Does nothing to other specs. Blocks.
std::vector<SpecViolation> ResolveHuggingFaceModel(v1::JobSpec& spec);

}  // namespace longhaul::cli
