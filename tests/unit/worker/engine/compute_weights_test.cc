#include "worker/engine/compute_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "ATen/TensorOperators.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "tests/testing/bigram_model.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

constexpr int64_t kTableSide = 40;

struct WeightsRank {
  WeightsRank(const PoolLink& link, const PartitionMap& map, at::ScalarType compute)
      : exchange(PoolExchange::Create(link, map, at::kCPU).value()),
        plan(layout, map, exchange->topology(), exchange->rank()),
        weights(layout, plan, *exchange, at::kCPU, compute) {}

  // element = scale * its number, from each owner.
  void Fill(double scale) {
    for (int unit = 0; unit < 2; ++unit) {
      const ElementRange& owned = plan.owned(unit);
      weights.Master(unit, owned).copy_(at::arange(owned.first, owned.end()).mul(scale));
      ASSERT_TRUE(weights.SpreadMasters(unit).ok());
      ASSERT_TRUE(weights.Refresh(unit).ok());
    }
  }
  // The table, gathered for a pass.
  at::Tensor Gathered(Pass pass) {
    if (weights.split()) {
      weights.Open(0);
      EXPECT_TRUE(weights.Gather(0, pass).ok());
    }
    const at::Tensor table = weights.Leaves(0, {})[0].detach().to(at::kFloat).clone().flatten();
    if (weights.split()) weights.Close(0);
    return table;
  }

  // Its table is gathered for backward, too.
  const ModelLayout layout = [] {
    ModelLayout bigram = BigramModel(kTableSide).layout();
    bigram.units[0].kind = UnitKind::kBlock;
    return bigram;
  }();
  std::unique_ptr<PoolExchange> exchange;
  ShardPlan plan;
  ComputeWeights weights;
};

void ForFourRanks(std::string_view preset, at::ScalarType compute,
                  const std::function<void(WeightsRank& rank)>& body) {
  RunRanks(4, [&](int, Communicator& communicator) {
    WeightsRank rank({.communicator = &communicator, .ranks_of_node = {2, 2}},
                     PartitionPreset(preset).value(), compute);
    body(rank);
  });
}

const at::Tensor kTable = at::arange(static_cast<double>(kTableSide * kTableSide)).to(at::kFloat);

TEST(ComputeWeightsTest, LeavesSeeWhatOwnersWrote) {
  for (const char* preset : {"ddp", "zero1", "zero3"}) {
    ForFourRanks(preset, at::kFloat, [&](WeightsRank& rank) {
      for (const double scale : {1.0, 3.0}) {
        rank.Fill(scale);
        for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kEvaluation})
          EXPECT_TRUE(at::equal(rank.Gathered(pass), kTable * scale)) << preset;
      }
    });
  }
}

TEST(ComputeWeightsTest, LeavesAreLeavesOfTheirOwnShape) {
  WeightsRank rank({}, {}, at::kFloat);
  rank.Fill(1);
  const TensorRef table{0, 0};
  const auto leaves = rank.weights.Leaves(1, {&table, 1});
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_EQ(leaves[0].dim(), 1);
  EXPECT_EQ(leaves[1].sizes(), (std::vector<int64_t>{kTableSide, kTableSide}));
  EXPECT_TRUE(leaves[1].requires_grad());
  EXPECT_TRUE(leaves[1].is_leaf());
  EXPECT_EQ(leaves[1].data_ptr(), rank.weights.Leaves(0, {})[0].data_ptr());
}

TEST(ComputeWeightsTest, MatricesComputeInBfloat16AndVectorsInFloat32) {
  for (const char* preset : {"ddp", "zero1", "zero3"}) {
    ForFourRanks(preset, at::kBFloat16, [&](WeightsRank& rank) {
      rank.Fill(0.1);
      EXPECT_EQ(rank.weights.Leaves(0, {})[0].scalar_type(), at::kBFloat16);
      EXPECT_EQ(rank.weights.Leaves(1, {})[0].scalar_type(), at::kFloat);
      const at::Tensor expected = (kTable * 0.1).to(at::kBFloat16).to(at::kFloat);
      EXPECT_TRUE(at::equal(rank.Gathered(Pass::kForward), expected)) << preset;
      if (rank.weights.split()) {
        rank.weights.Open(1);
        EXPECT_TRUE(rank.weights.Gather(1, Pass::kForward).ok());
      }
      EXPECT_TRUE(at::equal(rank.weights.Leaves(1, {})[0].detach(),
                            (at::arange(static_cast<double>(kTableSide)) * 0.1).to(at::kFloat)));
    });
  }
}

// Each rank decodes its own part, too: all compute with the same weights.
TEST(ComputeWeightsTest, EveryRankGathersTheSameQuantizedWeights) {
  for (const char* preset : {"zeropp", "frontier3"}) {
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      std::mutex mutex;
      std::vector<at::Tensor> gathered;
      ForFourRanks(preset, compute, [&](WeightsRank& rank) {
        rank.Fill(0.37);
        for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kEvaluation}) {
          const at::Tensor table = rank.Gathered(pass);
          const std::lock_guard lock(mutex);
          gathered.push_back(table);
        }
      });
      ASSERT_EQ(gathered.size(), 12u);
      for (const at::Tensor& table : gathered) EXPECT_TRUE(at::equal(table, gathered[0])) << preset;
      EXPECT_FALSE(at::equal(gathered[0], (kTable * 0.37).to(compute).to(at::kFloat)));
    }
  }
}

// Backward computes with what forward did (E11).
TEST(ComputeWeightsTest, TheSecondaryCopyIsWhatForwardHad) {
  for (const char* preset : {"zeropp", "frontier3"}) {
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      ForFourRanks(preset, compute, [&](WeightsRank& rank) {
        for (const double scale : {1.0, -2.0}) {
          rank.Fill(scale);
          const at::Tensor forward = rank.Gathered(Pass::kForward);
          EXPECT_TRUE(at::equal(rank.Gathered(Pass::kBackward), forward)) << preset;
          EXPECT_TRUE(at::allclose(forward, kTable * scale, 0.02, 10));
        }
      });
    }
  }
}

TEST(ComputeWeightsTest, AStaleSecondaryCopyIsAnError) {
  ForFourRanks("zeropp", at::kFloat, [](WeightsRank& rank) {
    rank.Fill(1);
    rank.Gathered(Pass::kForward);
    rank.Fill(2);
    // Evaluation leaves it as it is.
    rank.Gathered(Pass::kEvaluation);
    rank.weights.Open(0);
    const absl::Status stale = rank.weights.Gather(0, Pass::kBackward);
    EXPECT_EQ(stale.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(stale.message()), testing::HasSubstr("is of version 1"));
    rank.weights.Close(0);
    rank.Gathered(Pass::kForward);
    rank.Gathered(Pass::kBackward);
  });
}

}  // namespace
}  // namespace longhaul
