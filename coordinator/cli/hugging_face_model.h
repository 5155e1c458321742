// `model.hf` of a spec on the submitting machine: the model's shape comes from config.json there,
// and text is read by the tokenizer there.
#pragma once

#include <vector>

#include "common/config/spec_violation.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::cli {

// Fills in model.transformer if model.hf is given and its folder (absolute, or relative to the
// current one) is here. Values that the spec has must equal those of config.json, except context
// and positions. Text and JSONL without a tokenizer get the model's, whose digest is put into
// data.model_tokenizer; a folder without one is wrong. Returns what is wrong; the spec is then
// unusable. Other specs are not changed. Blocks.
std::vector<SpecViolation> ResolveHuggingFaceModel(v1::JobSpec& spec);

}  // namespace longhaul::cli
