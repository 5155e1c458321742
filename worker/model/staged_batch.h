// A rank's part of a batch, on the model's device, ready for the stream that computes.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"

namespace longhaul {

struct StagedBatch {
  // By the enum of the model's family (worker/model/language_batch.h). Undefined: the batch has no
  // such tensor.
  std::vector<at::Tensor> tensors;
  // Sequences, or seed nodes. 0: this rank has no part in the batch.
  int64_t examples = 0;
};

}  // namespace longhaul
