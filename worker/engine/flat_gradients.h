// Gradients as one flat float32 buffer for each unit, laid out as the parameters. A tensor's first
// contribution overwrites, later ones (tied weights, micro-batches) are added, so nothing has to be
// zeroed.
//
// Where the plan splits gradients, a unit's buffer is there from its first contribution of a
// micro-batch until it is released; what stays is the sum of what this rank keeps of it. Units of
// one size share buffers.
//
// Used from one thread, but for Keep: it is called by the thread that reduced the unit, between
// Finish and Release. Throws as torch does.
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

class FlatGradients : public GradientPlaces {
 public:
  // `layout` and `plan` outlive the object.
  FlatGradients(const ModelLayout& layout, const ShardPlan& plan, at::Device device);

  bool split() const { return plan_.map().gradients.level != Level::kRank; }

  // Forgets everything.
  void BeginStep();
  void Add(TensorRef tensor, const at::Tensor& gradient);
  // The same for a contribution that is written in place.
  GradientPlace Place(TensorRef tensor) override;
  // Completes a unit's buffer: tensors without a contribution become zero.
  void Finish(int unit);
  // After Finish; where gradients are split, until Release.
  const at::Tensor& unit(int unit) const { return units_[unit].flat; }

  // --- Where gradients are split.

  // The buffer has the sum over the level that gradients are split over, of what this rank keeps:
  // it is added to the sum of the step.
  void Keep(int unit);
  void Release(int unit);

  // What this rank has of the step's sum, and the first element of it.
  const at::Tensor& sum(int unit) const { return split() ? units_[unit].kept : units_[unit].flat; }
  int64_t first(int unit) const { return plan_.Held(unit, plan_.map().gradients.level).first; }
  // A part of it; `range` is of the unit.
  at::Tensor Range(int unit, const ElementRange& range) const {
    return sum(unit).narrow(0, range.first - first(unit), range.count);
  }

  // Of what stays between two micro-batches.
  int64_t kept_bytes() const;
  // Of the buffers that are shared.
  int64_t transient_bytes() const { return transient_bytes_; }

 private:
  struct Unit {
    at::Tensor flat;                // Undefined: the unit has no buffer now.
    at::Tensor kept;                // Defined where gradients are split.
    bool has_kept = false;          // In this step.
    std::vector<bool> contributed;  // By tensor, to the buffer.
  };

  at::Tensor View(TensorRef tensor) const;
  void Open(int unit);
  at::Tensor Make(int64_t elements) const;

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  const at::Device device_;
  std::vector<Unit> units_;
  std::map<int64_t, std::vector<at::Tensor>> free_;  // By size.
  int64_t transient_bytes_ = 0;
};

}  // namespace longhaul
