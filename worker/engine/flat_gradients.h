// Gradients in one flat float32 buffer for each unit, with the layout of the parameters. The first
// contribution to a tensor overwrites, later ones (tied weights, micro-batches) are added. So
// nothing has to be zeroed.
//
// If the plan splits gradients, a unit has a buffer from its first contribution in a micro-batch
// until Release. What remains is the step's sum of the part that this rank keeps. Units of one size
// share buffers.
//
// Called from one thread, except Keep: the thread that reduced the unit calls it, between Finish
// and Release. Throws as torch does.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ATen/core/Tensor.h"
#include "common/layout/model_layout.h"
#include "worker/engine/shard_plan.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"

namespace longhaul {

class FlatGradients : public GradientSlots {
 public:
  // `layout` and `plan` outlive the object.
  FlatGradients(const ModelLayout& layout, const ShardPlan& plan, at::Device device);

  bool split() const { return plan_.map().gradients.level != Level::kRank; }

  // Drops all contributions.
  void BeginStep();
  void Add(TensorRef tensor, const at::Tensor& gradient);
  // Whether a tensor has a contribution.
  bool any() const;
  // As Add, for a contribution that the caller writes to the returned place before the next call.
  GradientPlace Place(TensorRef tensor);
  GradientSlot Slot(TensorRef tensor) override;
  // Completes a unit's buffer: tensors without a contribution become zero.
  void Finish(int unit);
  // Valid after Finish; if gradients are split, until Release.
  const at::Tensor& unit(int unit) const { return units_[unit].flat; }

  // --- If gradients are split.

  // Adds the part that this rank keeps to the sum of the step. The buffer must hold it summed over
  // the level over which gradients are split.
  void Keep(int unit);
  void Release(int unit);

  // The part of the step's sum that this rank has, and the unit's element with which it begins.
  const at::Tensor& sum(int unit) const { return split() ? units_[unit].kept : units_[unit].flat; }
  int64_t first(int unit) const { return plan_.Held(unit, plan_.map().gradients.level).first; }
  // A part of the sum. `range` is in elements of the unit.
  at::Tensor Range(int unit, const ElementRange& range) const {
    return sum(unit).narrow(0, range.first - first(unit), range.count);
  }

  // The memory that is kept between two micro-batches.
  int64_t kept_bytes() const;
  // The memory of the shared buffers.
  int64_t transient_bytes() const { return transient_bytes_; }

 private:
  struct Unit {
    // Undefined: the unit has no buffer now.
    at::Tensor flat;
    // Defined if gradients are split.
    at::Tensor kept;
    // Keep was called in this step.
    bool has_kept = false;
    // Whether the buffer has a contribution, by tensor.
    std::vector<bool> contributed;
  };

  at::Tensor View(TensorRef tensor) const;
  void Open(int unit);
  at::Tensor Make(int64_t elements) const;

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  const at::Device device_;
  std::vector<Unit> units_;
  // By size.
  std::map<int64_t, std::vector<at::Tensor>> free_;
  int64_t transient_bytes_ = 0;
};

}  // namespace longhaul
