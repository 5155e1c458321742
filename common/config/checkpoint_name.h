// The names that people use for a checkpoint: JOB@STEP, or JOB for its newest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

struct CheckpointName {
  // Name or id.
  std::string job;
  std::optional<int64_t> step;
};

// Empty if the text has neither form.
std::optional<CheckpointName> ParseCheckpointName(absl::string_view text);

}  // namespace longhaul
