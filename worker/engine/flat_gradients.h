// Gradients as one flat float32 buffer for each unit, laid out as the parameters. A tensor's first
// contribution of a step overwrites, later ones (tied weights) are added, so nothing has to be
// zeroed.
//
// Where the plan splits gradients, a unit's buffer is there from its first contribution until it was
// reduced; what stays is the range that this rank owns. Units of one size share buffers.
//
// Used from one thread, but for Reduced: it is called on the thread that reduced the unit, between
// its Finish and the end of the step. Throws as torch does.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/layout/model_layout.h"
#include "worker/engine/shard_plan.h"
#include "worker/model/model.h"

namespace longhaul {

class FlatGradients {
 public:
  // `layout` and `plan` outlive the object.
  FlatGradients(const ModelLayout& layout, const ShardPlan& plan, at::Device device);

  void BeginStep();
  void Add(TensorRef tensor, const at::Tensor& gradient) ABSL_LOCKS_EXCLUDED(mutex_);
  // Completes a unit's buffer for this step: tensors without a contribution become zero.
  void Finish(int unit) ABSL_LOCKS_EXCLUDED(mutex_);
  // After Finish, until Reduced.
  const at::Tensor& unit(int unit) const { return units_[unit].flat; }
  // The buffer has the pool's sum, at least of the range that this rank owns.
  void Reduced(int unit) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the sum: elements of a unit that this rank updates.
  at::Tensor Range(int unit, const ElementRange& range) const;

  // Of all buffers, also those that wait to be used again.
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Unit {
    at::Tensor flat;                // Undefined: the unit has no buffer now.
    at::Tensor owned;               // Defined where gradients are split.
    std::vector<bool> contributed;  // By tensor, in this step.
  };

  at::Tensor View(TensorRef tensor) const;
  void Open(int unit) ABSL_LOCKS_EXCLUDED(mutex_);
  at::Tensor Make(int64_t elements) const;

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  const at::Device device_;
  std::vector<Unit> units_;
  mutable absl::Mutex mutex_;
  std::map<int64_t, std::vector<at::Tensor>> free_ ABSL_GUARDED_BY(mutex_);  // By size.
  int64_t made_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace longhaul
