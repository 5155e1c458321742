// Takes the shape of a Hugging Face model into a spec. Pure.
#pragma once

#include <vector>

#include "common/config/spec_violation.h"
#include "common/hf/hf_config.h"
#include "longhaul/v1/model.pb.h"

namespace longhaul {

// Fills `spec` with the shape in `config`. The spec's own context is kept, and so are fields with
// the same value. A field with another value is a violation, named as a field of model.transformer;
// then `spec` is not changed.
std::vector<SpecViolation> TakeShape(const HfConfig& config, v1::TransformerSpec& spec);

}  // namespace longhaul
