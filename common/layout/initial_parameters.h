// Where a model's parameters come from at its start: a seed, a Hugging Face folder or a checkpoint.
// Each rank reads only what it owns.
//
// Implementations: SeedParameters (worker/model/initialization.h), HfParameters
// (common/hf/hf_parameters.h), CheckpointFolder (common/checkpoint/checkpoint_folder.h).
// Thread-safe; Read may block on the disk.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace longhaul {

class InitialParameters {
 public:
  virtual ~InitialParameters() = default;
  // Reads elements [offset, offset + out.size()), which lie in one unit of the model's layout.
  // DATA_LOSS: the source is damaged, or has a value that is not finite.
  virtual absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const = 0;
};

}  // namespace longhaul
