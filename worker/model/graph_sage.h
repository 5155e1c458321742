// GraphSAGE (Hamilton et al., arXiv 1706.02216) for the classes of nodes, or for links
// (worker/model/link_scores.h). A layer computes
//   h'(v) = W_self h(v) + W_neigh aggregate(h(u), u a drawn neighbor of v) + b
// and, except in the last one: length 1 (optional), layer norm (optional), ReLU, dropout. Its
// tensors are those of LayOutGraphSage, its batches are in worker/model/graph_batch.h. For float32.
// Immutable, so thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/graph_sage_layout.h"
#include "worker/graph/cuda/sage_kernels.h"
#include "worker/model/model.h"

namespace longhaul {

class GraphSage : public Model {
 public:
  // `kernels`: for tensors on a device; they outlive the model. Null: all is in host memory.
  // INVALID_ARGUMENT: see LayOutGraphSage.
  static absl::StatusOr<std::unique_ptr<GraphSage>> Create(const GraphSageShape& shape,
                                                           const SageKernels* kernels = nullptr);

  const ModelLayout& layout() const override { return layout_; }
  // Matrices: normal with the variance 2 / (inputs + outputs) (Glorot and Bengio, 2010). Biases: 0.
  InitialValues Initial(TensorRef tensor) const override;
  std::vector<TensorRef> Borrowed(int) const override { return {}; }
  at::Tensor Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                     const StagedBatch& batch) const override;
  // What layer `unit` gives for some nodes, of their own rows and of what their neighbors pass
  // (Aggregate). Nothing is dropped. The last layer gives logits of classes.
  at::Tensor Rows(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& own,
                  const at::Tensor& passed) const;
  // Of classes: cross-entropy, and how many seeds have their class as the largest output; over
  // labelled seeds. Of links: LinkMetrics.
  std::vector<std::string> metrics() const override;
  // Of classes, by class: of labels, of predictions, and of predictions that are right.
  int64_t counts() const override { return shape_.links ? 0 : 3 * shape_.classes; }
  // Of classes "macro_f1": the mean of 2 right / (labels + predictions) over those that have a
  // label or a prediction.
  void Derive(std::vector<NamedValue>& means, absl::Span<const double> counts) const override;

 private:
  GraphSage(const GraphSageShape& shape, ModelLayout layout, const SageKernels* kernels)
      : shape_(shape), layout_(std::move(layout)), kernels_(kernels) {}
  // Of an evaluation: layer by layer, with all neighbors.
  at::Tensor ForwardByNodes(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                            const StagedBatch& batch) const;
  at::Tensor Neighbors(int layer, const at::Tensor& input, int64_t targets,
                       const StagedBatch& batch) const;
  // Without dropout.
  at::Tensor Hidden(absl::Span<const at::Tensor> weights, at::Tensor x) const;
  at::Tensor Dropped(int layer, at::Tensor x, const StagedBatch& batch) const;

  GraphSageShape shape_;
  ModelLayout layout_;
  const SageKernels* kernels_;
};

}  // namespace longhaul
