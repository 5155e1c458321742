#include "worker/model/graph_layer.h"

#include <atomic>
#include <bit>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "absl/types/span.h"
#include "c10/util/Exception.h"
#include "worker/model/aggregation.h"
#include "worker/model/graph_batch.h"

namespace longhaul {
namespace {

// Of nodes that are computed at a time. A node's edges stay together.
constexpr int64_t kTargetsAtOnce = 4096, kEdgesAtOnce = 1 << 19;
constexpr int64_t kGrainOfTargets = 64;

absl::Span<const int64_t> Whole(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

// The nodes of a layer; `before` has those of the one before it.
absl::Span<const int64_t> TargetsOf(const StagedBatch& batch, int unit) {
  const absl::Span<const int64_t> ends = Whole(batch.tensors[kLayerTargetEnds]);
  const int64_t begin = unit == 0 ? 0 : ends[unit - 1];
  return Whole(batch.tensors[kLayerTargets]).subspan(begin, ends[unit] - begin);
}

// Which row of a layer's input a node has.
class RowsOfNodes {
 public:
  // Every node has the row of its number.
  explicit RowsOfNodes(int64_t nodes) : nodes_(nodes) {}
  // Only those have one that are among the ascending `present`.
  RowsOfNodes(int64_t nodes, absl::Span<const int64_t> present)
      : nodes_(nodes), words_((nodes + 63) / 64) {
    for (const int64_t node : present) words_[node >> 6].bits |= uint64_t{1} << (node & 63);
    int64_t row = 0;
    for (Word& word : words_) {
      word.first = row;
      row += std::popcount(word.bits);
    }
  }

  // -1: the node has none.
  int64_t Of(int64_t node) const {
    if (node < 0 || node >= nodes_) return -1;
    if (words_.empty()) return node;
    const Word& word = words_[node >> 6];
    const uint64_t bit = uint64_t{1} << (node & 63);
    return (word.bits & bit) == 0 ? -1 : word.first + std::popcount(word.bits & (bit - 1));
  }

 private:
  struct Word {
    uint64_t bits = 0;
    int64_t first = 0;
  };
  int64_t nodes_;
  std::vector<Word> words_;
};

struct SomeTargets {
  // By target: its row of the input; where its edges begin in the graph, and in `sources`, which
  // has rows.
  std::vector<int64_t> own, begins, indptr, sources;
};

// Takes the first of `targets` that fit, and returns how many.
template <typename Source>
int64_t Take(absl::Span<const int64_t> targets, absl::Span<const int64_t> indptr,
             const Source* sources, int64_t edges, const RowsOfNodes& rows, SomeTargets& some) {
  std::atomic<bool> broken = false;
  some.own.clear();
  some.begins.clear();
  some.indptr.assign(1, 0);
  for (const int64_t node : targets) {
    const int64_t begin = indptr[node], end = indptr[node + 1];
    TORCH_CHECK(begin >= 0 && begin <= end && end <= edges, "the graph's arrays have changed");
    const int64_t after = some.indptr.back() + end - begin;
    if (!some.own.empty() &&
        (static_cast<int64_t>(some.own.size()) == kTargetsAtOnce || after > kEdgesAtOnce))
      break;
    some.own.push_back(rows.Of(node));
    some.begins.push_back(begin);
    some.indptr.push_back(after);
  }
  const auto count = static_cast<int64_t>(some.own.size());
  some.sources.resize(some.indptr.back());
  at::parallel_for(0, count, kGrainOfTargets, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) {
      if (some.own[t] < 0) broken = true;
      const int64_t degree = some.indptr[t + 1] - some.indptr[t];
      const Source* const of = sources + some.begins[t];
      for (int64_t i = 0; i < degree; ++i) {
        const int64_t row = rows.Of(of[i]);
        if (row < 0) broken = true;
        some.sources[some.indptr[t] + i] = row;
      }
    }
  });
  TORCH_CHECK(!broken, "the graph's arrays have changed");
  return count;
}

template <typename T>
at::Tensor ViewOf(const T* values, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(const_cast<T*>(values), shape, c10::TensorOptions(type));
}

at::Tensor ViewOf(absl::Span<const int64_t> values) {
  return ViewOf(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
}

}  // namespace

StagedBatch BatchByNodes(const WholeGraph& graph, absl::Span<const int64_t> targets,
                         absl::Span<const int64_t> target_ends, absl::Span<const int64_t> labels) {
  StagedBatch batch{.tensors = std::vector<at::Tensor>(kGraphTensors)};
  batch.tensors[kLayerTargets] = ViewOf(targets);
  batch.tensors[kLayerTargetEnds] = ViewOf(target_ends);
  batch.tensors[kLabels] = ViewOf(labels);
  batch.tensors[kGraphIndptr] = ViewOf(graph.indptr);
  const int64_t edges = graph.indptr.back();
  batch.tensors[kGraphSources] = graph.sources != nullptr
                                     ? ViewOf(graph.sources, {edges}, at::kInt)
                                     : ViewOf(graph.wide_sources, {edges}, at::kLong);
  batch.tensors[kFeatures] = ViewOf(graph.features, {graph.nodes, graph.columns}, at::kFloat);
  batch.examples = static_cast<int64_t>(labels.size());
  return batch;
}

at::Tensor LayerByNodes(int unit, const at::Tensor& x, const StagedBatch& batch,
                        GraphAggregator aggregator, LayerOfRows layer) {
  const at::Tensor& input = unit == 0 ? batch.tensors[kFeatures] : x;
  const absl::Span<const int64_t> indptr = Whole(batch.tensors[kGraphIndptr]);
  const auto nodes = static_cast<int64_t>(indptr.size()) - 1;
  const RowsOfNodes rows =
      unit == 0 ? RowsOfNodes(nodes) : RowsOfNodes(nodes, TargetsOf(batch, unit - 1));
  const at::Tensor& sources = batch.tensors[kGraphSources];
  const absl::Span<const int64_t> targets = TargetsOf(batch, unit);
  at::Tensor out;
  SomeTargets some;
  for (int64_t done = 0; done < static_cast<int64_t>(targets.size());) {
    const absl::Span<const int64_t> rest = targets.subspan(done);
    const int64_t count =
        sources.scalar_type() == at::kInt
            ? Take(rest, indptr, sources.const_data_ptr<int32_t>(), sources.numel(), rows, some)
            : Take(rest, indptr, sources.const_data_ptr<int64_t>(), sources.numel(), rows, some);
    const at::Tensor own = input.index_select(
        0, at::from_blob(some.own.data(), {count}, c10::TensorOptions(at::kLong)));
    const at::Tensor of_some =
        layer(own, AggregateRows(input, some.indptr, some.sources, aggregator));
    if (!out.defined()) {
      out = at::empty({static_cast<int64_t>(targets.size()), of_some.size(1)},
                      c10::TensorOptions(of_some.scalar_type()));
    }
    out.narrow(0, done, count).copy_(of_some);
    done += count;
  }
  return out;
}

}  // namespace longhaul
