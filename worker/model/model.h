// The interface of models for the engine: units, each of which is a function from its input and
// weights to its output. A model has no weights and does not know ranks. The engine gives it the
// weights of one unit at a time.
//
// Units run in the order of the layout. The first reads the batch's inputs, every other one the
// output of the unit before it, and the last also the batch's targets and its loss mask.
// Implementations: TransformerLm; in tests BigramModel. Immutable, so thread-safe. Forward is
// differentiable by autograd, and throws c10::Error as torch does; the engine converts it.
#pragma once

#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"

namespace longhaul {

// Token sequences, int64, on the model's device. B: sequences, T: positions.
struct Batch {
  at::Tensor inputs_BT, targets_BT;
  // For each position, where its document begins, int64. Attention does not look before that.
  // Undefined: each sequence is one document.
  at::Tensor document_starts_BT;
  // DocumentMask (layers.h) of it, which all blocks share with autograd. FusedPass does not read
  // it.
  at::Tensor mask_B1TT;
  // The targets on which the loss is, bool. Undefined: all.
  at::Tensor loss_mask_BT;
};

struct TensorRef {
  // Indexes in ModelLayout::units and in UnitLayout::tensors.
  int unit = 0, tensor = 0;
};

// The initial values of a tensor are normal with this mean and standard deviation. 0: all are the
// mean.
struct InitialValues {
  double mean = 0, deviation = 0;
};

class FusedPass;

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelLayout& layout() const = 0;
  virtual InitialValues Initial(TensorRef tensor) const = 0;
  // Tensors of earlier units that this unit reads, too (a tied output projection).
  virtual std::vector<TensorRef> Borrowed(int unit) const = 0;
  // `weights`: the unit's own tensors in the order of its layout, then the borrowed ones. Matrices
  // have the type to compute in, vectors are float32. `x` is the output of the previous unit; the
  // first unit ignores it. The last unit returns the sum of the cross-entropy over the targets
  // that the batch counts, in nats, a float32 scalar.
  virtual at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                             const Batch& batch) const = 0;
  // The same units in hand-written kernels (worker/model/fused_pass.h), computing in kFloat or
  // kBFloat16. The model outlives the result. Null: there are none for this model on this device.
  virtual std::unique_ptr<FusedPass> MakeFusedPass(at::ScalarType compute) const;
};

}  // namespace longhaul
