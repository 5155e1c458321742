#include "worker/model/graph_sage.h"

#include <cmath>
#include <utility>

#include "ATen/TensorOperators.h"
#include "ATen/core/Reduction.h"
#include "ATen/ops/bincount.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/layer_norm.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/log_softmax.h"
#include "ATen/ops/nll_loss.h"
#include "ATen/ops/relu.h"
#include "ATen/ops/stack.h"
#include "c10/util/Exception.h"
#include "common/base/macro_f1.h"
#include "common/base/status_macros.h"
#include "worker/model/aggregation.h"
#include "worker/model/device_aggregation.h"
#include "worker/model/graph_batch.h"
#include "worker/model/graph_layer.h"
#include "worker/model/link_scores.h"

namespace longhaul {
namespace {

constexpr double kLayerNormEps = 1e-5;
constexpr int64_t kNoLabel = -1;

// A row of zeros is divided by 1.
at::Tensor OfLengthOne(const at::Tensor& x) {
  const at::Tensor length = at::linalg_vector_norm(x, 2, at::IntArrayRef{1}, /*keepdim=*/true);
  return x / length.masked_fill(length == 0, 1);
}

at::Tensor Combine(absl::Span<const at::Tensor> weights, const at::Tensor& own,
                   const at::Tensor& neighbors) {
  return at::linear(own, weights[kSelfWeight], weights[kSelfBias]) +
         at::linear(neighbors, weights[kNeighborWeight]);
}

at::Tensor SumsOfClasses(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor loss =
      at::nll_loss(at::log_softmax(logits, 1), labels, {}, at::Reduction::Sum, kNoLabel);
  const at::Tensor right = (logits.detach().argmax(1) == labels).sum().to(at::kFloat);
  return at::stack({loss, right});
}

// For each class how many nodes have it, how many are predicted to, and how many of these do. Only
// labelled nodes count.
at::Tensor CountsOfClasses(const at::Tensor& logits, const at::Tensor& labels) {
  const int64_t classes = logits.size(1);
  const at::Tensor known = labels != kNoLabel;
  const at::Tensor actual = labels.masked_select(known);
  const at::Tensor predicted = logits.argmax(1).masked_select(known);
  const auto count = [&](const at::Tensor& of) { return at::bincount(of, {}, classes); };
  return at::cat(
             {count(actual), count(predicted), count(actual.masked_select(actual == predicted))})
      .to(at::kFloat);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphSage>> GraphSage::Create(const GraphSageShape& shape,
                                                             const SageKernels* kernels) {
  LH_ASSIGN_OR_RETURN(ModelLayout layout, LayOutGraphSage(shape));
  return std::unique_ptr<GraphSage>(new GraphSage(shape, std::move(layout), kernels));
}

std::vector<std::string> GraphSage::metrics() const {
  if (shape_.links) return LinkMetrics();
  return {"loss", "accuracy"};
}

InitialValues GraphSage::Initial(TensorRef ref) const {
  if (ref.tensor == kNormWeight) return {.mean = 1};
  if (ref.tensor != kSelfWeight && ref.tensor != kNeighborWeight) return {};
  const std::vector<int64_t>& shape = layout_.units[ref.unit].tensors[ref.tensor].shape;
  return {.deviation = std::sqrt(2.0 / static_cast<double>(shape[0] + shape[1]))};
}

at::Tensor GraphSage::Forward(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& x,
                              const StagedBatch& batch) const {
  if (batch.tensors[kLayerTargets].defined()) return ForwardByNodes(unit, weights, x, batch);
  const at::Tensor& input = unit == 0 ? batch.tensors[kFeatures] : x;
  const at::Tensor& ends = batch.tensors[kLevelEnds];
  TORCH_CHECK(ends.size(0) == shape_.layers() + 1, "a sample has a hop for each layer");
  const int64_t targets = ends.const_data_ptr<int64_t>()[shape_.layers() - 1 - unit];
  const at::Tensor neighbors = Neighbors(unit, input, targets, batch);
  at::Tensor out = Combine(weights, input.narrow(0, 0, targets), neighbors);
  if (unit + 1 < shape_.layers()) return Dropped(unit, Hidden(weights, std::move(out)), batch);
  const at::Tensor seeds = out.index_select(0, batch.tensors[kSeedRows]);
  return shape_.links ? SumsOfLinks(seeds, batch) : SumsOfClasses(seeds, batch.tensors[kLabels]);
}

at::Tensor GraphSage::Neighbors(int layer, const at::Tensor& input, int64_t targets,
                                const StagedBatch& batch) const {
  const at::Tensor indptr = batch.tensors[kIndptr].narrow(0, 0, targets + 1);
  const at::Tensor& rows = batch.tensors[kSourceRows];
  if (input.is_cpu()) return Aggregate(input, indptr, rows, shape_.aggregator);
  TORCH_CHECK(kernels_ != nullptr, "a model without kernels for this device");
  EdgesBySource by_source;
  if (layer > 0)
    by_source = {batch.tensors[kSourceStarts], batch.tensors[kSourceEdges],
                 batch.tensors[kSourceTargets]};
  return Aggregate(*kernels_, input, indptr, rows, by_source, shape_.aggregator);
}

at::Tensor GraphSage::ForwardByNodes(int unit, absl::Span<const at::Tensor> weights,
                                     const at::Tensor& x, const StagedBatch& batch) const {
  const bool last = unit + 1 == shape_.layers();
  const at::Device device = weights[kSelfWeight].device();
  at::Tensor out = LayerByNodes(unit, x, batch, shape_.aggregator,
                                [&](const at::Tensor& own, const at::Tensor& passed) {
                                  return Rows(unit, weights, own.to(device), passed.to(device));
                                });
  if (!last) return out;
  const at::Tensor& labels = batch.tensors[kLabels];
  return at::cat({SumsOfClasses(out, labels), CountsOfClasses(out, labels)});
}

at::Tensor GraphSage::Rows(int unit, absl::Span<const at::Tensor> weights, const at::Tensor& own,
                           const at::Tensor& passed) const {
  at::Tensor rows = Combine(weights, own, passed);
  return unit + 1 == shape_.layers() ? rows : Hidden(weights, std::move(rows));
}

void GraphSage::Derive(std::vector<NamedValue>& means, absl::Span<const double> counts) const {
  if (!shape_.links) means.push_back({"macro_f1", MacroF1(counts)});
}

at::Tensor GraphSage::Hidden(absl::Span<const at::Tensor> weights, at::Tensor x) const {
  if (shape_.normalize) x = OfLengthOne(x);
  if (shape_.layer_norm)
    x = at::layer_norm(x, {x.size(1)}, weights[kNormWeight], weights[kNormBias], kLayerNormEps);
  return at::relu(x);
}

at::Tensor GraphSage::Dropped(int layer, at::Tensor x, const StagedBatch& batch) const {
  const at::Tensor& key = batch.tensors[kDropoutKey];
  if (!key.defined() || shape_.dropout == 0) return x;
  const auto of_step = static_cast<uint64_t>(*key.const_data_ptr<int64_t>());
  const at::Tensor nodes = batch.tensors[kNodes].narrow(0, 0, x.size(0));
  return x * (x.is_cpu()
                  ? DropoutMask(of_step, layer, nodes, x.size(1), shape_.dropout)
                  : DropoutMask(*kernels_, of_step, layer, nodes, x.size(1), shape_.dropout));
}

}  // namespace longhaul
