#include "worker/lm/graph_model.h"

#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/softmax.h"
#include "common/base/finite.h"
#include "common/base/status_macros.h"
#include "worker/engine/torch_status.h"
#include "worker/graph/layer_targets.h"
#include "worker/model/graph_layer.h"
#include "worker/model/graph_sage.h"

namespace longhaul {
namespace {

constexpr int64_t kReadAtOnce = int64_t{1} << 24;

absl::Span<const float> SpanOf(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

class GraphModel::Weights {
 public:
  Weights(const GraphSageShape& shape, std::unique_ptr<GraphSage> model)
      : shape_(shape), model_(std::move(model)) {}

  absl::Status Read(const InitialParameters& parameters) {
    const ModelLayout& layout = model_->layout();
    for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
      const UnitLayout& of = layout.units[unit];
      const at::Tensor flat = at::empty({of.elements}, at::kFloat);
      const absl::Span<float> values(flat.data_ptr<float>(), of.elements);
      for (int64_t at = 0; at < of.elements; at += kReadAtOnce)
        LH_RETURN_IF_ERROR(parameters.Read(unit, at, values.subspan(at, kReadAtOnce)));
      std::vector<at::Tensor>& views = views_.emplace_back();
      for (const TensorLayout& tensor : of.tensors)
        views.push_back(flat.narrow(0, tensor.offset, tensor.elements).view(tensor.shape));
    }
    return absl::OkStatus();
  }

  const GraphSageShape& shape() const { return shape_; }

  absl::Status Predict(const StagedBatch& batch,
                       absl::FunctionRef<absl::Status(const Rows&)> take) const {
    const at::NoGradGuard no_grad;
    const int last = shape_.layers() - 1;
    at::Tensor x;
    for (int unit = 0; unit < last; ++unit)
      x = LayerByNodes(unit, x, batch, shape_.aggregator, [&](const auto& own, const auto& passed) {
        return model_->Rows(unit, views_[unit], own, passed);
      });
    absl::Status status;
    int64_t first = 0;
    // What is taken need not be kept: rows without columns are.
    LayerByNodes(last, x, batch, shape_.aggregator, [&](const auto& own, const auto& passed) {
      const at::Tensor outputs = model_->Rows(last, views_[last], own, passed);
      const int64_t count = outputs.size(0);
      if (status.ok()) status = Take(outputs, own, first, take);
      first += count;
      return at::empty({count, 0});
    });
    return status;
  }

 private:
  absl::Status Take(const at::Tensor& outputs, const at::Tensor& inputs, int64_t first,
                    absl::FunctionRef<absl::Status(const Rows&)> take) const {
    const at::Tensor rows = outputs.contiguous();
    if (!AllFinite(SpanOf(rows))) {
      return absl::DataLossError(
          "the model's outputs are not finite: its training has diverged, or its parameters are "
          "damaged");
    }
    Rows result{.first = first, .count = rows.size(0), .embeddings = SpanOf(rows)};
    if (shape_.links) return take(result);
    const at::Tensor probabilities = at::softmax(rows, 1).contiguous();
    const at::Tensor embeddings = inputs.contiguous();
    result.probabilities = SpanOf(probabilities);
    result.embeddings = SpanOf(embeddings);
    return take(result);
  }

  const GraphSageShape shape_;
  const std::unique_ptr<GraphSage> model_;
  // By unit, as Model::Forward takes them.
  std::vector<std::vector<at::Tensor>> views_;
};

GraphModel::GraphModel(std::unique_ptr<Weights> weights) : weights_(std::move(weights)) {}
GraphModel::~GraphModel() = default;

const GraphSageShape& GraphModel::shape() const { return weights_->shape(); }

absl::StatusOr<std::unique_ptr<GraphModel>> GraphModel::Load(const GraphSageShape& shape,
                                                             const InitialParameters& parameters,
                                                             int threads) {
  return CatchTorch("reading the model", [&]() -> absl::StatusOr<std::unique_ptr<GraphModel>> {
    at::set_num_threads(threads);
    LH_ASSIGN_OR_RETURN(std::unique_ptr<GraphSage> model, GraphSage::Create(shape));
    auto weights = std::make_unique<Weights>(shape, std::move(model));
    LH_RETURN_IF_ERROR(weights->Read(parameters));
    return std::unique_ptr<GraphModel>(new GraphModel(std::move(weights)));
  });
}

absl::Status GraphModel::Predict(const GraphFolder& graph, absl::Span<const int64_t> nodes,
                                 absl::FunctionRef<absl::Status(const Rows&)> take) const {
  const GraphEdges edges = graph.edges();
  LH_ASSIGN_OR_RETURN(const LayerTargets targets, FindLayerTargets(edges, nodes, shape().layers()));
  const absl::Status done = CatchTorch("predicting", [&]() -> absl::Status {
    const WholeGraph whole{.nodes = graph.nodes(),
                           .columns = graph.columns(),
                           .features = graph.features().data(),
                           .indptr = edges.indptr,
                           .sources = edges.sources,
                           .wide_sources = edges.wide_sources};
    return weights_->Predict(BatchByNodes(whole, targets.nodes, targets.ends, {}), take);
  });
  // A graph that has changed is why something else failed.
  LH_RETURN_IF_ERROR(graph.Check());
  return done;
}

}  // namespace longhaul
