// Graph jobs on a CUDA device. Skips where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/tensor.h"
#include "tests/testing/graph_run.h"
#include "tests/testing/graphs.h"
#include "tests/testing/random_tensor.h"
#include "tests/testing/temp_dir.h"
#include "torch/csrc/autograd/autograd.h"
#include "worker/engine/device.h"
#include "worker/model/aggregation.h"
#include "worker/model/device_aggregation.h"

namespace longhaul {
namespace {

class GraphCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = OpenCudaDevice(0);
    if (absl::IsFailedPrecondition(opened.status())) GTEST_SKIP() << opened.status().message();
    ASSERT_TRUE(opened.ok()) << opened.status();
    device_ = *opened;
  }
  at::Device device_ = at::kCPU;
};

TEST_F(GraphCudaTest, KernelsGiveWhatTheProcessorGives) {
  const SageKernels& kernels = *LoadCudaSageKernels().value();
  // Row 1 has no source; an edge occurs twice.
  const at::Tensor indptr = at::tensor(std::vector<int64_t>{0, 3, 3, 5, 9}, at::kLong),
                   rows = at::tensor(std::vector<int32_t>{4, 5, 4, 0, 6, 1, 2, 3, 6}, at::kInt);
  const EdgesBySource by_source{
      at::tensor(std::vector<int64_t>{0, 1, 2, 3, 4, 6, 7, 9}, at::kLong).to(device_),
      at::tensor(std::vector<int32_t>{3, 5, 6, 7, 0, 2, 1, 4, 8}, at::kInt).to(device_),
      at::tensor(std::vector<int32_t>{2, 3, 3, 3, 0, 0, 0, 2, 3}, at::kInt).to(device_)};
  for (const int64_t columns : {1, 37, 602}) {
    for (const GraphAggregator aggregator :
         {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
      const at::Tensor values = RandomNormal({7, columns}), weights = RandomNormal({4, columns}, 2);
      const at::Tensor x = values.clone().requires_grad_(), y = values.to(device_).requires_grad_();
      const at::Tensor expected = Aggregate(x, indptr, rows, aggregator),
                       actual = Aggregate(kernels, y, indptr.to(device_), rows.to(device_),
                                          by_source, aggregator);
      EXPECT_TRUE(at::equal(actual.cpu(), expected));
      const auto of_x = torch::autograd::grad({(expected * weights).sum()}, {x}),
                 of_y = torch::autograd::grad({(actual * weights.to(device_)).sum()}, {y});
      EXPECT_LT((of_y[0].cpu() - of_x[0]).abs().max().item<float>(), 1e-5);
    }
    const at::Tensor nodes = at::tensor(std::vector<int64_t>{5, 0, 1 << 20}, at::kLong);
    EXPECT_TRUE(at::equal(DropoutMask(kernels, 3, 1, nodes.to(device_), columns, 0.3).cpu(),
                          DropoutMask(3, 1, nodes, columns, 0.3)));
  }
}

TEST_F(GraphCudaTest, EveryAccessTrainsToTheSameBits) {
  const TempDir folder;
  const std::string path = folder.Join("graph");
  testing_support::WritePlantedGraph({.nodes = 300, .columns = 9}, path);
  for (const GraphAggregator aggregator :
       {GraphAggregator::kMean, GraphAggregator::kSum, GraphAggregator::kMax}) {
    GraphRun run{
        .device = device_, .features = {.access = FeatureAccess::kHost}, .aggregator = aggregator};
    const std::vector<double> expected = TrainGraph(path, run).numbers;
    for (const FeatureAccess access : {FeatureAccess::kHost, FeatureAccess::kDevice,
                                       FeatureAccess::kZeroCopy, FeatureAccess::kMapped}) {
      for (const int64_t cache : {0, 4000}) {
        for (const int ranks_of_node : {1, 2}) {
          run.features = {.access = access, .cache_bytes = cache};
          run.ranks_of_node = ranks_of_node;
          const GraphResult result = TrainGraph(path, run);
          EXPECT_EQ(result.numbers, expected) << NameOf(access) << ", cache " << cache;
          EXPECT_EQ(result.warning, "");
        }
      }
    }
    run.device = at::kCPU;
    run.features = {};
    ExpectNearlyEqual(expected, TrainGraph(path, run).numbers);
  }
}

}  // namespace
}  // namespace longhaul
