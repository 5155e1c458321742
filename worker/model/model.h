// The interface of models for the engine: units, each of which is a function from its input and
// weights to its output. A model has no weights and does not know ranks. The engine gives it the
// weights of one unit at a time.
//
// Units run in the order of the layout. Each reads the output of the unit before it, and what it
// needs of the batch. The last returns the sums of the model's metrics over the batch. Backward of
// a unit of kind kEmbedding must not read its weights: they are gone by then (GathersForBackward).
// Implementations: TransformerLm; in tests BigramModel. Immutable, so thread-safe. Forward is
// differentiable by autograd, and throws c10::Error as torch does; the engine converts it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/layout/model_layout.h"
#include "worker/model/staged_batch.h"

namespace longhaul {

struct TensorRef {
  // Indexes in ModelLayout::units and in UnitLayout::tensors.
  int unit = 0, tensor = 0;
};

// The initial values of a tensor are normal with this mean and standard deviation. 0: all are the
// mean.
struct InitialValues {
  double mean = 0, deviation = 0;
};

// Where the next contribution to a weight's gradient goes.
struct GradientPlace {
  // float32, of the weight's shape.
  at::Tensor values;
  // Add the gradient to the values. False: overwrite them.
  bool add = false;

  void Take(const at::Tensor& gradient) const {
    add ? values.add_(gradient) : values.copy_(gradient);
  }
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
  // first unit ignores it. The last unit returns float32 [metrics]: sums over what the batch
  // counts. The first is that of the loss, in nats for cross-entropy, and the only one that is
  // differentiated.
  virtual at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                             const StagedBatch& batch) const = 0;
  struct LastUnit {
    // What Forward returns, and the gradient of x (undefined if x is).
    at::Tensor sums, of_x;
  };
  // Forward and backward of the last unit. `of_sums`: the gradient of its sums. The gradient of
  // each of `weights` goes to its place in `gradients`. By default autograd differentiates Forward;
  // an override may write a large gradient into its place.
  virtual LastUnit ForwardBackward(absl::Span<const at::Tensor> weights, const at::Tensor& x,
                                   const StagedBatch& batch, const at::Tensor& of_sums,
                                   absl::Span<const GradientPlace> gradients) const;
  // The names of those sums. The first is "loss".
  virtual std::vector<std::string> metrics() const { return {"loss"}; }
  // How many counts the last unit returns after those sums for an evaluation's batch.
  virtual int64_t counts() const { return 0; }
  // Adds to the means of the metrics what follows from them and from the counts of all batches, or
  // replaces them, for reports.
  virtual void Derive(std::vector<NamedValue>& means, absl::Span<const double> counts) const {}
  // Adds to a batch what several units' Forward reads and is made once. FusedPass does not need it.
  // `compute`: the type of matrices.
  virtual void Prepare(StagedBatch& batch, at::ScalarType compute) const {}
  // The same units in hand-written kernels (worker/model/fused_pass.h), computing in kFloat or
  // kBFloat16. The model outlives the result. Null: there are none for this model on this device.
  virtual std::unique_ptr<FusedPass> MakeFusedPass(at::ScalarType compute) const;
};

}  // namespace longhaul
