// What the layouts of all kinds of models are made with. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// INVALID_ARGUMENT: "FIELD: found 0, expected 1 to 8".
absl::Status RequireRange(const char* field, int64_t value, int64_t low, int64_t high);

// Adds a tensor at the end of the unit. Weight decay applies to it if it is a matrix.
void AddTensor(UnitLayout& unit, std::string name, std::vector<int64_t> shape);

// INVALID_ARGUMENT: the model has more than kMaxModelElements.
absl::Status RequireTotal(const ModelLayout& model);

}  // namespace longhaul
