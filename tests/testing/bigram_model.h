// The smallest language model: the logits of the next token are a row of a table plus a bias. It
// has two units and a convex loss. It documents the interface, and tests of the engine use it.
#pragma once

#include "worker/model/model.h"

namespace longhaul {

class BigramModel : public Model {
 public:
  explicit BigramModel(int64_t vocab);

  const ModelLayout& layout() const override { return layout_; }
  InitialValues Initial(TensorRef tensor) const override { return {}; }
  std::vector<TensorRef> Borrowed(int unit) const override { return {}; }
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override;

 private:
  ModelLayout layout_;
};

}  // namespace longhaul
