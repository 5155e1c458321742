#include "worker/model/device_aggregation.h"

#include <string>

#include "ATen/ops/empty.h"
#include "c10/util/Exception.h"
#include "common/graph/dropout_bits.h"
#include "torch/csrc/autograd/custom_function.h"
#include "worker/model/device_stream.h"

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

class DeviceAggregateFunction : public Function<DeviceAggregateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& indptr,
                            const at::Tensor& source_rows, const EdgesBySource& by_source,
                            int64_t aggregator, const SageKernels* kernels) {
    const at::Tensor from = x.contiguous();
    const int64_t columns = from.size(1), targets = indptr.size(0) - 1;
    at::Tensor out = at::empty({targets, columns}, from.options()), winners;
    if (aggregator == static_cast<int64_t>(GraphAggregator::kMax))
      winners = at::empty({targets, columns}, from.options().dtype(at::kInt));
    CheckLaunch(kernels->Aggregate(
        {.aggregator = static_cast<GraphAggregator>(aggregator),
         .x = from.const_data_ptr<float>(),
         .columns = columns,
         .targets = targets,
         .indptr = indptr.const_data_ptr<int64_t>(),
         .source_rows = source_rows.const_data_ptr<int32_t>(),
         .out = out.mutable_data_ptr<float>(),
         .winners = winners.defined() ? winners.mutable_data_ptr<int32_t>() : nullptr},
        CurrentStream(from.device())));
    context->saved_data["rows"] = from.size(0);
    context->saved_data["aggregator"] = aggregator;
    context->saved_data["kernels"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(kernels));
    context->save_for_backward(
        {indptr, by_source.starts, by_source.edges, by_source.targets, winners});
    return out;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto kept = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    const int64_t columns = gradient.size(1), sources = context->saved_data["rows"].toInt();
    const at::Tensor &starts = kept[1], &winners = kept[4];
    TORCH_CHECK(starts.defined() && starts.size(0) > sources,
                "the edges by their sources are those of another layer");
    at::Tensor of_x = at::empty({sources, columns}, gradient.options());
    const auto* const kernels = reinterpret_cast<const SageKernels*>(
        static_cast<intptr_t>(context->saved_data["kernels"].toInt()));
    CheckLaunch(kernels->AggregateBack(
        {.aggregator = static_cast<GraphAggregator>(context->saved_data["aggregator"].toInt()),
         .gradient = gradient.const_data_ptr<float>(),
         .columns = columns,
         .targets = gradient.size(0),
         .sources = sources,
         .indptr = kept[0].const_data_ptr<int64_t>(),
         .starts = starts.const_data_ptr<int64_t>(),
         .edges = kept[2].const_data_ptr<int32_t>(),
         .edge_targets = kept[3].const_data_ptr<int32_t>(),
         .winners = winners.defined() ? winners.const_data_ptr<int32_t>() : nullptr,
         .of_x = of_x.mutable_data_ptr<float>()},
        CurrentStream(gradient.device())));
    return {of_x, {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor Aggregate(const SageKernels& kernels, const at::Tensor& x, const at::Tensor& indptr,
                     const at::Tensor& source_rows, const EdgesBySource& by_source,
                     GraphAggregator aggregator) {
  TORCH_CHECK(x.scalar_type() == at::kFloat && x.dim() == 2, "aggregation is built for float32");
  // Its tensors may be undefined, which torch does not take as arguments by themselves.
  return DeviceAggregateFunction::apply(x, indptr, source_rows, by_source,
                                        static_cast<int64_t>(aggregator), &kernels);
}

at::Tensor DropoutMask(const SageKernels& kernels, uint64_t key, int64_t layer,
                       const at::Tensor& nodes, int64_t columns, double rate) {
  const DropoutRate of(rate);
  at::Tensor mask = at::empty({nodes.size(0), columns}, nodes.options().dtype(at::kFloat));
  CheckLaunch(kernels.Dropout({.key = key,
                               .layer = layer,
                               .dropped = of.dropped,
                               .kept = of.kept,
                               .nodes = nodes.const_data_ptr<int64_t>(),
                               .rows = nodes.size(0),
                               .columns = columns,
                               .mask = mask.mutable_data_ptr<float>()},
                              CurrentStream(nodes.device())));
  return mask;
}

}  // namespace longhaul
