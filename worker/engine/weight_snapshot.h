// A copy of all compute weights of a model at one moment, whole in this rank's memory, for any
// partition. Evaluation beside training uses it.
//
// Immutable, so thread-safe. Throws as torch does.
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
  // Copies the weights that `weights` gathers; its uses must be CopyUses. Blocks for the
  // gathers. Errors: those of the gathers.
  static absl::StatusOr<WeightSnapshot> Take(const Model& model, WeightStream& weights);
  // The memory of a snapshot.
  static int64_t BytesOf(const ModelLayout& layout, at::ScalarType compute);

  // The arguments of a unit's forward: its own tensors, then the borrowed ones.
  std::vector<at::Tensor> Leaves(const Model& model, int unit) const;
  int64_t bytes() const;

 private:
  // By unit, without borrowed tensors.
  std::vector<std::vector<at::Tensor>> leaves_;
};

// The sums of the model's metrics over the batch. `fused` computes them. Null: the model's own
// forward does.
std::vector<double> SumsOf(const Model& model, const WeightSnapshot& weights,
                           const StagedBatch& batch, FusedPass* fused);

}  // namespace longhaul
