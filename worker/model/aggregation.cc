#include "worker/model/aggregation.h"

#include <algorithm>
#include <cmath>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "c10/util/Exception.h"
#include "common/graph/dropout_bits.h"
#include "torch/csrc/autograd/custom_function.h"

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::tensor_list;

// Of a thread's work: targets forward; backward columns, a cache line of them.
constexpr int64_t kGrainTargets = 64, kGrainColumns = 16;

template <typename Row>
struct EdgesOf {
  int64_t degree(int64_t target) const { return indptr[target + 1] - indptr[target]; }

  int64_t targets;
  const int64_t* indptr;
  const Row* rows;
};

struct Edges : EdgesOf<int32_t> {
  Edges(const at::Tensor& indptr, const at::Tensor& source_rows)
      : EdgesOf<int32_t>{indptr.size(0) - 1, indptr.const_data_ptr<int64_t>(),
                         source_rows.const_data_ptr<int32_t>()} {}
};

template <typename Row>
void AddSources(const EdgesOf<Row>& edges, const float* x, int64_t columns, bool mean, float* out) {
  at::parallel_for(0, edges.targets, kGrainTargets, [&](int64_t first, int64_t end) {
    for (int64_t target = first; target < end; ++target) {
      float* const sum = out + target * columns;
      for (int64_t i = edges.indptr[target]; i < edges.indptr[target + 1]; ++i) {
        const float* const row = x + edges.rows[i] * columns;
        for (int64_t c = 0; c < columns; ++c) sum[c] += row[c];
      }
      if (!mean || edges.degree(target) < 2) continue;
      const auto degree = static_cast<float>(edges.degree(target));
      for (int64_t c = 0; c < columns; ++c) sum[c] /= degree;
    }
  });
}

// `winners`: the row that each maximum is from; -1: none. Null: nobody asks.
template <typename Row>
void TakeMaxima(const EdgesOf<Row>& edges, const float* x, int64_t columns, float* out,
                Row* winners) {
  at::parallel_for(0, edges.targets, kGrainTargets, [&](int64_t first, int64_t end) {
    for (int64_t target = first; target < end; ++target) {
      float* const best = out + target * columns;
      Row* const from = winners == nullptr ? nullptr : winners + target * columns;
      if (from != nullptr) std::fill(from, from + columns, -1);
      const int64_t begin = edges.indptr[target];
      for (int64_t i = begin; i < edges.indptr[target + 1]; ++i) {
        const float* const row = x + edges.rows[i] * columns;
        for (int64_t c = 0; c < columns; ++c) {
          // A value that is no number is kept, so that it is seen.
          if (i > begin && !(row[c] > best[c]) && !std::isnan(row[c])) continue;
          best[c] = row[c];
          if (from != nullptr) from[c] = edges.rows[i];
        }
      }
    }
  });
}

// Each thread has its own columns, so every element's sum has the order of the edges.
template <typename AddTo>
void ForColumns(int64_t columns, const AddTo& add) {
  const int64_t parts = (columns + kGrainColumns - 1) / kGrainColumns;
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
    add(first * kGrainColumns, std::min(end * kGrainColumns, columns));
  });
}

void AddToSources(const Edges& edges, const float* gradient, int64_t columns, bool mean,
                  float* of_x) {
  ForColumns(columns, [&](int64_t first, int64_t end) {
    for (int64_t target = 0; target < edges.targets; ++target) {
      const float* const of_target = gradient + target * columns;
      const float scale =
          mean ? 1.0F / static_cast<float>(std::max<int64_t>(1, edges.degree(target))) : 1.0F;
      for (int64_t i = edges.indptr[target]; i < edges.indptr[target + 1]; ++i) {
        float* const row = of_x + edges.rows[i] * columns;
        for (int64_t c = first; c < end; ++c) row[c] += of_target[c] * scale;
      }
    }
  });
}

void AddToWinners(const int32_t* winners, int64_t targets, const float* gradient, int64_t columns,
                  float* of_x) {
  ForColumns(columns, [&](int64_t first, int64_t end) {
    for (int64_t target = 0; target < targets; ++target) {
      for (int64_t c = first; c < end; ++c) {
        const int64_t at = target * columns + c;
        if (winners[at] >= 0) of_x[winners[at] * columns + c] += gradient[at];
      }
    }
  });
}

class AggregateFunction : public Function<AggregateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& indptr,
                            const at::Tensor& source_rows, int64_t aggregator) {
    const at::Tensor from = x.contiguous();
    const Edges edges(indptr, source_rows);
    const int64_t columns = from.size(1);
    at::Tensor out = at::zeros({edges.targets, columns}, from.options()), winners;
    context->saved_data["rows"] = from.size(0);
    context->saved_data["aggregator"] = aggregator;
    if (aggregator == static_cast<int64_t>(GraphAggregator::kMax)) {
      winners = at::empty({edges.targets, columns}, from.options().dtype(at::kInt));
      TakeMaxima(edges, from.const_data_ptr<float>(), columns, out.mutable_data_ptr<float>(),
                 winners.mutable_data_ptr<int32_t>());
    } else {
      AddSources(edges, from.const_data_ptr<float>(), columns,
                 aggregator == static_cast<int64_t>(GraphAggregator::kMean),
                 out.mutable_data_ptr<float>());
    }
    context->save_for_backward({indptr, source_rows, winners});
    return out;
  }

  static tensor_list backward(AutogradContext* context, const tensor_list& gradients) {
    const auto kept = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    const int64_t columns = gradient.size(1),
                  aggregator = context->saved_data["aggregator"].toInt();
    at::Tensor of_x = at::zeros({context->saved_data["rows"].toInt(), columns}, gradient.options());
    if (aggregator == static_cast<int64_t>(GraphAggregator::kMax)) {
      AddToWinners(kept[2].const_data_ptr<int32_t>(), gradient.size(0),
                   gradient.const_data_ptr<float>(), columns, of_x.mutable_data_ptr<float>());
    } else {
      AddToSources(Edges(kept[0], kept[1]), gradient.const_data_ptr<float>(), columns,
                   aggregator == static_cast<int64_t>(GraphAggregator::kMean),
                   of_x.mutable_data_ptr<float>());
    }
    return {of_x, {}, {}, {}};
  }
};

}  // namespace

at::Tensor Aggregate(const at::Tensor& x, const at::Tensor& indptr, const at::Tensor& source_rows,
                     GraphAggregator aggregator) {
  TORCH_CHECK(x.is_cpu() && x.scalar_type() == at::kFloat && x.dim() == 2,
              "aggregation is built for float32 in host memory");
  return AggregateFunction::apply(x, indptr, source_rows, static_cast<int64_t>(aggregator));
}

at::Tensor AggregateRows(const at::Tensor& x, absl::Span<const int64_t> indptr,
                         absl::Span<const int64_t> source_rows, GraphAggregator aggregator) {
  TORCH_CHECK(x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous(),
              "aggregation is built for float32 in host memory");
  const EdgesOf<int64_t> edges{static_cast<int64_t>(indptr.size()) - 1, indptr.data(),
                               source_rows.data()};
  at::Tensor out = at::zeros({edges.targets, x.size(1)}, x.options());
  if (aggregator == GraphAggregator::kMax) {
    TakeMaxima<int64_t>(edges, x.const_data_ptr<float>(), x.size(1), out.mutable_data_ptr<float>(),
                        nullptr);
  } else {
    AddSources(edges, x.const_data_ptr<float>(), x.size(1), aggregator == GraphAggregator::kMean,
               out.mutable_data_ptr<float>());
  }
  return out;
}

at::Tensor DropoutMask(uint64_t key, int64_t layer, const at::Tensor& nodes, int64_t columns,
                       double rate) {
  const DropoutRate of(rate);
  at::Tensor mask = at::empty({nodes.size(0), columns}, nodes.options().dtype(at::kFloat));
  const int64_t* const of_row = nodes.const_data_ptr<int64_t>();
  float* const out = mask.mutable_data_ptr<float>();
  at::parallel_for(0, nodes.size(0), kGrainTargets, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row) {
      const uint64_t of_node = DropoutRow(key, layer, of_row[row]);
      float* const values = out + row * columns;
      for (int64_t c = 0; c < columns; c += kDropoutOfAWord) {
        const uint64_t word = DropoutWord(of_node, c);
        for (int64_t i = 0; i < std::min<int64_t>(kDropoutOfAWord, columns - c); ++i)
          values[c + i] = DropoutDrops(word, i, of.dropped) ? 0.0F : of.kept;
      }
    }
  });
  return mask;
}

}  // namespace longhaul
