// What the engine needs of a model: its units, each a function from its input and weights to its
// output. A model holds no weights and knows no ranks; the engine gives it the weights of one unit
// at a time.
//
// Units run in the order of the layout: the first one reads the batch's inputs, each next one its
// predecessor's output, the last one also the batch's targets. Implementations: TransformerLm,
// BigramModel. Immutable, hence thread-safe. Forward is differentiable by autograd, and throws
// c10::Error as torch does; the engine converts it.
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
  // The first position of each one's document, int64: attention does not look before it. Undefined:
  // a sequence is one document.
  at::Tensor document_starts_BT;
  // The same as DocumentMask (layers.h) makes it, which all of autograd's blocks share. FusedPass does
  // not read it.
  at::Tensor mask_B1TT;
};

struct TensorRef {
  int unit = 0, tensor = 0;  // Index in ModelLayout::units, in UnitLayout::tensors.
};

// Initial values of a tensor: normal with this mean and deviation (0: a constant).
struct InitialValues {
  double mean = 0, deviation = 0;
};

class FusedPass;

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelLayout& layout() const = 0;
  virtual InitialValues Initial(TensorRef tensor) const = 0;
  // Tensors of earlier units that this unit reads besides its own (a tied output projection).
  virtual std::vector<TensorRef> Borrowed(int unit) const = 0;
  // `weights`: the unit's own tensors in the order of its layout, then the borrowed ones; matrices
  // in the precision to compute in, vectors in float32. The first unit ignores `x`. The last unit
  // returns the sum of the cross-entropy over all tokens of the batch, in nats, a float32 scalar.
  virtual at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                             const Batch& batch) const = 0;
  // The same units by hand, computing in kFloat or kBFloat16 (worker/model/fused_pass.h); the model
  // outlives it. Null: this model, on this device, has autograd alone.
  virtual std::unique_ptr<FusedPass> MakeFusedPass(at::ScalarType compute) const;
};

}  // namespace longhaul
