// The weights that a model computes with, as they are at one moment: a copy of all of them, in this
// rank's memory, whatever the partition. What is evaluated beside training is computed with it.
//
// Immutable, hence thread-safe. Throws as torch does.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "common/layout/model_layout.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"

namespace longhaul {

class WeightSnapshot {
 public:
  // Of what `weights` brings, whose uses are EvaluationUses. Blocks while gathers are under way;
  // their errors.
  static absl::StatusOr<WeightSnapshot> Take(const Model& model, WeightStream& weights);
  // What one of them takes.
  static int64_t BytesOf(const ModelLayout& layout, at::ScalarType compute);

  // What a unit's forward takes: its own tensors, then the borrowed ones.
  std::vector<at::Tensor> Leaves(const Model& model, int unit) const;
  int64_t bytes() const;

 private:
  std::vector<std::vector<at::Tensor>> leaves_;  // By unit, of their own.
};

// The sum of the loss over the batch's tokens, by `fused`, or without it by the model's own forward.
double LossSum(const Model& model, const WeightSnapshot& weights, const Batch& batch,
               FusedPass* fused);

}  // namespace longhaul
