// How people name a checkpoint: JOB@STEP, or JOB for its newest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

struct CheckpointName {
  std::string job;  // Name or id.
  std::optional<int64_t> step;
};

// Nothing: it is neither.
std::optional<CheckpointName> ParseCheckpointName(absl::string_view text);

}  // namespace longhaul
