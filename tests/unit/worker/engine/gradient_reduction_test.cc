#include "worker/engine/gradient_reduction.h"

#include <gtest/gtest.h>

#include <mutex>

#include "ATen/TensorOperators.h"
#include "ATen/ops/allclose.h"
#include "ATen/ops/arange.h"
#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

// 1,009 elements, of which the pool's pieces have nothing even.
ModelLayout OddLayout() {
  UnitLayout unit{.elements = 1009};
  unit.tensors = {{.shape = {9}, .offset = 0, .elements = 9},
                  {.shape = {100, 10}, .offset = 9, .elements = 1000}};
  return {.units = {unit}};
}

struct ReducingRank {
  ReducingRank(const std::vector<int>& nodes, const PartitionMap& map, Communicator& communicator)
      : exchange(PoolExchange::Create({.communicator = &communicator, .ranks_of_node = nodes}, map,
                                      at::kCPU)
                     .value()),
        plan(layout, map, exchange->topology(), exchange->rank()),
        reduction(layout, plan, *exchange, at::kCPU, 32) {}

  const ModelLayout layout = OddLayout();
  std::unique_ptr<PoolExchange> exchange;
  ShardPlan plan;
  GradientReduction reduction;
};

PartitionMap QuantizedGradients(int bits, bool error_feedback = false) {
  return {.gradients = {Level::kPool, bits},
          .error_feedback = error_feedback,
          .optimizer = Level::kPool};
}

void ForReducingRanks(const std::vector<int>& nodes, const PartitionMap& map,
                      const std::function<void(int rank, ReducingRank& pool)>& body) {
  int ranks = 0;
  for (const int of_node : nodes) ranks += of_node;
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    ReducingRank pool(nodes, map, communicator);
    body(rank, pool);
  });
}

// Every element arrives at its owner, as the exact sum over all ranks within the code's bound
// (PAPERS: E10), whatever the number of ranks and nodes.
TEST(GradientReductionTest, EachOwnerGetsTheSumOfItsElements) {
  for (const std::vector<int>& nodes :
       {std::vector<int>{2}, {3}, {1, 1, 1}, {2, 2}, {4, 4}, {3, 3, 3}, {2, 1}}) {
    const int ranks =
        nodes.size() > 1 ? nodes[0] * static_cast<int>(nodes.size() - 1) + nodes.back() : nodes[0];
    for (const int bits : {4, 6, 8, 16, 32}) {
      ForReducingRanks(nodes, QuantizedGradients(bits), [&](int rank, ReducingRank& pool) {
        const at::Tensor flat = at::arange(1009.0).mul(rank + 1);
        ASSERT_TRUE(pool.reduction.Reduce(0, flat, 0, Level::kRank, Level::kPool).ok());
        const ElementRange owned = pool.plan.owned(0);
        const double factor = ranks * (ranks + 1) / 2.0;
        const double bound = bits == 32   ? 1e-4
                             : bits == 16 ? 0.01
                             : bits == 8  ? 0.02
                             : bits == 6  ? 0.08
                                          : 0.3;
        for (int64_t i = owned.first; i < owned.end(); ++i) {
          const double expected = factor * static_cast<double>(i);
          // A block's largest element decides its error.
          EXPECT_NEAR(flat[i].item<float>(), expected,
                      bound * factor * static_cast<double>(i + 128))
              << "element " << i << " of " << ranks << " ranks in " << bits << " bits";
        }
      });
    }
  }
}

// What a rank keeps is not coded, in no hop.
TEST(GradientReductionTest, ARanksOwnPartIsExact) {
  const at::Tensor gradient = at::arange(1009.0).sin();
  for (const std::vector<int>& nodes : {std::vector<int>{3}, {2, 2}, {2, 1}}) {
    ForReducingRanks(nodes, QuantizedGradients(4), [&](int rank, ReducingRank& pool) {
      const at::Tensor flat = rank == 1 ? gradient.clone() : at::zeros({1009});
      ASSERT_TRUE(pool.reduction.Reduce(0, flat, 0, Level::kRank, Level::kPool).ok());
      const ElementRange owned = pool.plan.owned(0);
      const bool exact = at::equal(flat.narrow(0, owned.first, owned.count),
                                   gradient.narrow(0, owned.first, owned.count));
      EXPECT_EQ(exact, rank == 1);
    });
  }
}

TEST(GradientReductionTest, NodesFirstThenAcross) {
  const PartitionMap map{.gradients = {Level::kNode}, .optimizer = Level::kPool};
  ForReducingRanks({2, 2}, map, [](int rank, ReducingRank& pool) {
    const at::Tensor flat = at::full({1009}, static_cast<double>(1 << rank));
    ASSERT_TRUE(pool.reduction.Reduce(0, flat, 0, Level::kRank, Level::kNode).ok());
    const ElementRange in_node = pool.plan.Held(0, Level::kNode);
    EXPECT_EQ(flat[in_node.first].item<float>(), rank < 2 ? 3 : 12);
    EXPECT_EQ(flat[in_node.end() - 1].item<float>(), rank < 2 ? 3 : 12);
    const at::Tensor kept = flat.narrow(0, in_node.first, in_node.count);
    ASSERT_TRUE(pool.reduction.Reduce(0, kept, in_node.first, Level::kNode, Level::kPool).ok());
    EXPECT_EQ(kept[pool.plan.owned(0).first - in_node.first].item<float>(), 15);
    ASSERT_TRUE(pool.reduction.Spread(0, kept, in_node.first, Level::kNode).ok());
    EXPECT_EQ(kept.min().item<float>(), 15);
    EXPECT_EQ(kept.max().item<float>(), 15);
  });
}

// Coded sums that go back to all ranks are the same on all, bf16 or not.
TEST(GradientReductionTest, WhatIsSpreadIsEqualOnAllRanks) {
  std::mutex mutex;
  std::vector<at::Tensor> sums;
  RunRanks(4, [&](int rank, Communicator& communicator) {
    const ModelLayout layout = OddLayout();
    const auto exchange =
        PoolExchange::Create({.communicator = &communicator, .ranks_of_node = {2, 2}}, {}, at::kCPU)
            .value();
    const ShardPlan plan(layout, {.gradients = {Level::kRank, 4}}, exchange->topology(), rank);
    GradientReduction reduction(layout, plan, *exchange, at::kCPU, /*computed_bits=*/16);
    const at::Tensor flat = at::arange(1009.0).mul(0.37 * (rank + 1));
    ASSERT_TRUE(reduction.Reduce(0, flat, 0, Level::kRank, Level::kPool).ok());
    ASSERT_TRUE(reduction.Spread(0, flat, 0, Level::kRank).ok());
    const std::lock_guard lock(mutex);
    sums.push_back(flat);
  });
  for (const at::Tensor& sum : sums) EXPECT_TRUE(at::equal(sum, sums[0]));
}

TEST(GradientReductionTest, FeedbackMakesTheMeanExact) {
  const auto error_after = [](bool feedback) {
    double error = 0;
    std::mutex mutex;
    ForReducingRanks({2, 2}, QuantizedGradients(4, feedback), [&](int rank, ReducingRank& pool) {
      const at::Tensor gradient = at::arange(1009.0).mul(0.01 * (rank + 1)).sin();
      at::Tensor expected = at::zeros({1009});
      for (int r = 0; r < 4; ++r) expected += at::arange(1009.0).mul(0.01 * (r + 1)).sin();
      const ElementRange owned = pool.plan.owned(0);
      at::Tensor mean = at::zeros({owned.count});
      for (int time = 0; time < 20; ++time) {
        const at::Tensor flat = gradient.clone();
        ASSERT_TRUE(pool.reduction.Reduce(0, flat, 0, Level::kRank, Level::kPool).ok());
        mean += flat.narrow(0, owned.first, owned.count) / 20;
      }
      const double off =
          (mean - expected.narrow(0, owned.first, owned.count)).square().sum().item<double>();
      EXPECT_EQ(pool.reduction.kept_bytes() > 0, feedback);
      const std::lock_guard lock(mutex);
      error += off;
    });
    return error;
  };
  EXPECT_LT(error_after(true), 0.1 * error_after(false));
}

// LoCo (arXiv 2407.04480): e' = beta e + (1 - beta) (g + e - Q(g + e)), kept in bf16.
TEST(GradientReductionTest, AveragedFeedbackFollowsItsEquation) {
  constexpr double kBeta = 0.75;
  const auto gradient = [](int rank, int time) {
    return at::arange(1009.0).mul(0.01 * (time + 1) + 0.1 * rank).sin();
  };
  PartitionMap map = QuantizedGradients(4, true);
  map.error_beta = kBeta;
  for (const int times : {1, 4}) {
    ForReducingRanks({2}, map, [&](int rank, ReducingRank& pool) {
      for (int time = 0; time < times; ++time)
        ASSERT_TRUE(
            pool.reduction.Reduce(0, gradient(rank, time), 0, Level::kRank, Level::kPool).ok());
      ASSERT_TRUE(pool.reduction.CollectErrors(0).ok());
      // What the other rank owes of the elements that this one owns.
      const ElementRange owned = pool.plan.owned(0);
      const PieceRange piece{pool.plan.topology().piece(rank), 1};
      const UnitCode code(pool.layout.units[0], pool.plan.pieces(0), 4);
      CodingLoss loss;
      at::Tensor error = at::zeros({owned.count});
      for (int time = 0; time < times; ++time) {
        const at::Tensor u = gradient(1 - rank, time).narrow(0, owned.first, owned.count) + error;
        const at::Tensor sent = at::zeros({code.bytes()}, at::kByte);
        code.Encode(piece, {.flat = u, .first = owned.first}, sent, 0, {}, loss);
        const UnitValues q{.flat = at::zeros({owned.count}), .first = owned.first};
        code.Decode(piece, sent, 0, q);
        error = (kBeta * error + (1 - kBeta) * (u - q.flat)).to(at::kBFloat16).to(at::kFloat);
      }
      ASSERT_GT(error.abs().max().item<float>(), 0.01);
      EXPECT_TRUE(at::allclose(pool.reduction.owed(0), error, 0.01, 1e-6)) << times;
    });
  }
}

TEST(GradientReductionTest, ForgottenErrorsAreZero) {
  ForReducingRanks({2, 2}, QuantizedGradients(4, true), [](int, ReducingRank& pool) {
    ASSERT_TRUE(
        pool.reduction.Reduce(0, at::arange(1009.0).sin(), 0, Level::kRank, Level::kPool).ok());
    pool.reduction.ForgetErrors();
    ASSERT_TRUE(pool.reduction.CollectErrors(0).ok());
    EXPECT_EQ(pool.reduction.owed(0).abs().sum().item<float>(), 0);
  });
}

TEST(GradientReductionTest, WhatIsNotFiniteIsSaidAndHoldsNobody) {
  ForReducingRanks({2, 2}, QuantizedGradients(4), [](int rank, ReducingRank& pool) {
    const at::Tensor flat = at::full({1009}, rank == 1 ? NAN : 1.0);
    ASSERT_TRUE(pool.reduction.Reduce(0, flat, 0, Level::kRank, Level::kPool).ok());
    // Its own part is not coded, and spoils the next hop's.
    const bool finite = pool.reduction.loss().Take().finite;
    EXPECT_TRUE(rank != 1 || !finite);
    EXPECT_TRUE(pool.reduction.loss().Take().finite) << "taken before";
  });
}

}  // namespace
}  // namespace longhaul
