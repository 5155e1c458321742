// Initial parameters: a pure function of (seed, unit, tensor, index), so that any rank can make any
// part of them.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "worker/model/model.h"

namespace longhaul {

// Writes the initial values of elements [first, first + out.size()) of a unit.
void InitializeParameters(const Model& model, uint64_t seed, int unit, int64_t first,
                          absl::Span<float> out);

}  // namespace longhaul
