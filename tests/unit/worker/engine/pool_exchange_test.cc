#include "worker/engine/pool_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ATen/ops/full.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

using testing::_;
using testing::ElementsAre;
using testing::IsEmpty;

const PartitionMap kMapOfPairs{.weights = {Level::kPair}, .optimizer = Level::kPair};

void ForRanks(std::vector<int> nodes,
              const std::function<void(int rank, PoolExchange& exchange)>& body) {
  int ranks = 0;
  for (const int of_node : nodes) ranks += of_node;
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    const auto exchange =
        PoolExchange::Create({.communicator = &communicator, .ranks_of_node = nodes},
                             nodes[0] == 4 ? kMapOfPairs : PartitionMap{}, at::kCPU);
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    body(rank, **exchange);
  });
}

std::vector<std::vector<int>> RanksOf(const std::vector<const Hop*>& path) {
  std::vector<std::vector<int>> ranks;
  for (const Hop* hop : path) ranks.push_back(hop->ranks);
  return ranks;
}

std::vector<float> Values(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

TEST(PoolExchangeTest, PathsFollowTheTopology) {
  ForRanks({4, 4}, [](int rank, PoolExchange& exchange) {
    if (rank != 5) return;
    EXPECT_THAT(RanksOf(exchange.Path(Level::kPool, Level::kNode)), ElementsAre(ElementsAre(1, 5)));
    EXPECT_THAT(RanksOf(exchange.Path(Level::kNode, Level::kPair)), ElementsAre(ElementsAre(5, 7)));
    EXPECT_THAT(RanksOf(exchange.Path(Level::kPair, Level::kRank)), ElementsAre(ElementsAre(4, 5)));
    EXPECT_THAT(RanksOf(exchange.Path(Level::kPool, Level::kRank)),
                ElementsAre(ElementsAre(1, 5), ElementsAre(4, 6, 5, 7)))
        << "in the order of their pieces";
    EXPECT_THAT(exchange.Path(Level::kNode, Level::kNode), IsEmpty());
  });
  ForRanks({2}, [](int, PoolExchange& exchange) {
    EXPECT_THAT(exchange.Path(Level::kPool, Level::kNode), IsEmpty());
    EXPECT_THAT(RanksOf(exchange.Path(Level::kPool, Level::kRank)), ElementsAre(ElementsAre(0, 1)));
  });
  ForRanks({2, 1}, [](int, PoolExchange& exchange) {
    EXPECT_THAT(RanksOf(exchange.Path(Level::kPool, Level::kRank)),
                ElementsAre(ElementsAre(0, 1, 2)));
  });
}

TEST(PoolExchangeTest, ReduceScatterSumsTheRanksPart) {
  ForRanks({3}, [](int rank, PoolExchange& exchange) {
    const at::Tensor flat = at::full({3}, rank + 1.0);
    const Hop& hop = *exchange.Path(Level::kPool, Level::kRank)[0];
    ASSERT_TRUE(exchange.ReduceScatter(hop, flat, {2, 1, 0}).ok());
    if (rank == 0) {
      EXPECT_THAT(Values(flat), ElementsAre(6, 6, _));
    } else if (rank == 1) {
      EXPECT_EQ(Values(flat)[2], 6);
    }
  });
}

TEST(PoolExchangeTest, CountsWhatComesFromWhichLevel) {
  ForRanks({4, 4}, [](int, PoolExchange& exchange) {
    const at::Tensor bytes = at::full({8}, 1, at::kByte);
    const Hop& node = *exchange.Path(Level::kNode, Level::kRank)[0];
    const Hop& pool = *exchange.Path(Level::kPool, Level::kNode)[0];
    ASSERT_TRUE(exchange.AllGather(node, bytes, EvenParts(8, 4), {1, 1, 1, 1}, Use::kForward).ok());
    ASSERT_TRUE(exchange.AllGather(pool, bytes, EvenParts(8, 2), {}, Use::kBackward).ok());
    const ReceivedBytes received = exchange.received();
    EXPECT_THAT(received.payload[0], ElementsAre(0, 1, 2, 0));
    EXPECT_THAT(received.scales[0], ElementsAre(0, 1, 2, 0));
    EXPECT_THAT(received.payload[1], ElementsAre(0, 0, 0, 4));
    // The communicators count the same.
    EXPECT_EQ(node.communicator->traffic().received_bytes, 6);
    EXPECT_EQ(pool.communicator->traffic().received_bytes, 4);
  });
}

TEST(PoolExchangeTest, SumsAndGathersNumbers) {
  ForRanks({2, 1}, [](int rank, PoolExchange& exchange) {
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
  const auto exchange = PoolExchange::Create({}, {}, at::kCPU).value();
  EXPECT_THAT(exchange->Path(Level::kPool, Level::kRank), IsEmpty());
  const int64_t values[] = {4};
  EXPECT_THAT(exchange->Gather(values).value(), ElementsAre(ElementsAre(4)));
  EXPECT_EQ(exchange->ranks(), 1);
}

TEST(PoolExchangeTest, RefusesATopologyOfOtherRanks) {
  RunRanks(2, [](int, Communicator& communicator) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        PoolExchange::Create({.communicator = &communicator, .ranks_of_node = {1, 2}}, {}, at::kCPU)
            .status()));
  });
}

TEST(PoolExchangeTest, ReportsALostPeer) {
  RunRanks(2, [](int rank, Communicator& communicator) {
    const auto exchange =
        PoolExchange::Create({.communicator = &communicator}, {}, at::kCPU).value();
    if (rank == 1) return communicator.Abort("rank 1 stops");
    const Hop& hop = *exchange->Path(Level::kPool, Level::kRank)[0];
    const absl::Status lost = exchange->ReduceScatter(hop, at::full({3}, 1.0), {2, 1});
    EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(lost.message()),
                testing::HasSubstr("the pool's ranks 0 on node 0, 1 on node 0"));
  });
}

}  // namespace
}  // namespace longhaul
