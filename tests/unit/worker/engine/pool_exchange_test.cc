#include "worker/engine/pool_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/full.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

const std::vector<ElementRange> kOwners = {{0, 2}, {2, 1}, {3, 0}};  // The last rank owns nothing.

void ForThreeRanks(const std::function<void(int rank, PoolExchange& exchange)>& body) {
  RunRanks(3, [&](int rank, Communicator& communicator) {
    PoolExchange exchange({.communicator = &communicator}, at::kCPU);
    body(rank, exchange);
  });
}

std::vector<float> Values(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

TEST(PoolExchangeTest, AllReduceSumsOverRanks) {
  ForThreeRanks([](int rank, PoolExchange& exchange) {
    const at::Tensor flat = at::full({3}, rank + 1.0);
    ASSERT_TRUE(exchange.AllReduce(flat).ok());
    EXPECT_THAT(Values(flat), ElementsAre(6, 6, 6));
  });
}

TEST(PoolExchangeTest, ReduceScatterSumsTheOwnedRange) {
  ForThreeRanks([](int rank, PoolExchange& exchange) {
    const at::Tensor flat = at::full({3}, rank + 1.0);
    ASSERT_TRUE(exchange.ReduceScatter(flat, kOwners).ok());
    const ElementRange& owned = kOwners[rank];
    for (int64_t i = owned.first; i < owned.end(); ++i) EXPECT_EQ(flat[i].item<float>(), 6);
  });
}

TEST(PoolExchangeTest, AllGatherTakesEachRangeFromItsOwner) {
  ForThreeRanks([](int rank, PoolExchange& exchange) {
    const at::Tensor flat = at::full({3}, rank + 1.0);
    ASSERT_TRUE(exchange.AllGather(flat, kOwners).ok());
    EXPECT_THAT(Values(flat), ElementsAre(1, 1, 2));
  });
}

TEST(PoolExchangeTest, SumsAndGathersNumbers) {
  ForThreeRanks([](int rank, PoolExchange& exchange) {
    double sums[] = {1.0 * rank, 0.5};
    ASSERT_TRUE(exchange.Sum(absl::MakeSpan(sums)).ok());
    EXPECT_THAT(sums, ElementsAre(3, 1.5));
    const int64_t values[] = {rank, 10 * rank};
    EXPECT_THAT(exchange.Gather(values).value(),
                ElementsAre(ElementsAre(0, 0), ElementsAre(1, 10), ElementsAre(2, 20)));
    EXPECT_THAT(exchange.Gather({}).value(),
                ElementsAre(ElementsAre(), ElementsAre(), ElementsAre()));
  });
}

TEST(PoolExchangeTest, OneRankNeedsNoCommunicator) {
  PoolExchange exchange({}, at::kCPU);
  const at::Tensor flat = at::full({3}, 2.0);
  EXPECT_TRUE(exchange.AllReduce(flat).ok());
  const std::vector<ElementRange> owners = {{0, 3}};
  EXPECT_TRUE(exchange.ReduceScatter(flat, owners).ok());
  EXPECT_TRUE(exchange.AllGather(flat, owners).ok());
  EXPECT_THAT(Values(flat), ElementsAre(2, 2, 2));
  const int64_t values[] = {4};
  EXPECT_THAT(exchange.Gather(values).value(), ElementsAre(ElementsAre(4)));
  EXPECT_EQ(exchange.ranks(), 1);
}

TEST(PoolExchangeTest, ReportsALostPeer) {
  RunRanks(2, [](int rank, Communicator& communicator) {
    if (rank == 1) return communicator.Abort("rank 1 stops");
    PoolExchange exchange({.communicator = &communicator}, at::kCPU);
    EXPECT_EQ(exchange.AllReduce(at::full({3}, 1.0)).code(), absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace longhaul
