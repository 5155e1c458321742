// The device's kernels, run on the CPU, against aggregation.h.
#include "worker/model/device_aggregation.h"

#include <gtest/gtest.h>

#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "common/base/random.h"
#include "tests/testing/emulated_gather_kernels.h"
#include "tests/testing/random_tensor.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/model/aggregation.h"

namespace longhaul {
namespace {

constexpr int64_t kTargets = 40, kSources = 70;

// Degrees 0 to 9; an edge may occur twice. With more targets than the layer reads.
struct Edges {
  at::Tensor indptr, rows;
  EdgesBySource by_source;

  Edges() {
    Random random(3);
    std::vector<int64_t> ends = {0};
    std::vector<int32_t> from;
    for (int64_t t = 0; t < kTargets + 20; ++t) {
      for (uint64_t i = random.Below(10); i > 0; --i)
        from.push_back(static_cast<int32_t>(random.Below(kSources)));
      ends.push_back(static_cast<int64_t>(from.size()));
    }
    std::vector<int64_t> starts = {0};
    std::vector<int32_t> edges, targets;
    for (int32_t source = 0; source < kSources; ++source) {
      for (int64_t t = 0; t < kTargets + 20; ++t) {
        for (int64_t i = ends[t]; i < ends[t + 1]; ++i) {
          if (from[i] != source) continue;
          edges.push_back(static_cast<int32_t>(i));
          targets.push_back(static_cast<int32_t>(t));
        }
      }
      starts.push_back(static_cast<int64_t>(edges.size()));
    }
    indptr = at::tensor(ends, at::kLong).narrow(0, 0, kTargets + 1);
    rows = at::tensor(from, at::kInt);
    by_source = {at::tensor(starts, at::kLong), at::tensor(edges, at::kInt),
                 at::tensor(targets, at::kInt)};
  }
};

TEST(DeviceAggregationTest, ResultsAndGradientsAreThoseOfTheProcessor) {
  const testing_support::EmulatedSageKernels kernels;
  const Edges edges;
  for (const int64_t columns : {1, 16, 37}) {
    for (const GraphAggregator aggregator :
         {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
      // Few values, so that maxima are equal.
      const at::Tensor values = (RandomNormal({kSources, columns}) * 2).round();
      const at::Tensor x = values.clone().requires_grad_(), y = values.clone().requires_grad_();
      const at::Tensor expected = Aggregate(x, edges.indptr, edges.rows, aggregator),
                       actual = Aggregate(kernels, y, edges.indptr, edges.rows, edges.by_source,
                                          aggregator);
      EXPECT_TRUE(at::equal(actual, expected));
      const at::Tensor weights = RandomNormal({kTargets, columns}, 2);
      const auto of_x = torch::autograd::grad({(expected * weights).sum()}, {x}),
                 of_y = torch::autograd::grad({(actual * weights).sum()}, {y});
      EXPECT_TRUE(at::equal(of_y[0], of_x[0])) << columns;
      // The first layer's input is not differentiated.
      EXPECT_TRUE(at::equal(Aggregate(kernels, values, edges.indptr, edges.rows, {}, aggregator),
                            expected));
    }
  }
}

TEST(DeviceAggregationTest, DropoutKeepsWhatTheProcessorKeeps) {
  const testing_support::EmulatedSageKernels kernels;
  const at::Tensor nodes = at::tensor(std::vector<int64_t>{5, 0, 1 << 20, 7}, at::kLong);
  for (const int64_t columns : {1, 4, 7, 64}) {
    EXPECT_TRUE(at::equal(DropoutMask(kernels, 11, 1, nodes, columns, 0.3),
                          DropoutMask(11, 1, nodes, columns, 0.3)));
  }
}

}  // namespace
}  // namespace longhaul
