// A model of equal units of one matrix each, which costs next to nothing to compute: what the
// engine moves can be counted exactly.
#pragma once

#include "worker/model/model.h"

namespace longhaul::benchmark {

class LayeredModel : public Model {
 public:
  // `units` matrices of `elements` each.
  LayeredModel(int units, int64_t elements);

  const ModelLayout& layout() const override { return layout_; }
  InitialValues Initial(TensorRef tensor) const override { return {.deviation = 1}; }
  std::vector<TensorRef> Borrowed(int unit) const override { return {}; }
  // Half the squared norm of all weights: the gradient is the weights.
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override;

 private:
  ModelLayout layout_;
};

}  // namespace longhaul::benchmark
