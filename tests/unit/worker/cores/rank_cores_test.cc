#include "worker/cores/rank_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As many cores on each node, with two processors each: i and i + all.
HostCores Host(const std::vector<int>& cores_of_node) {
  int all = 0, next = 0;
  for (const int cores : cores_of_node) all += cores;
  HostCores host;
  for (size_t node = 0; node < cores_of_node.size(); ++node) {
    for (int i = 0; i < cores_of_node[node]; ++i, ++next)
      host.cores.push_back({{next, next + all}, static_cast<int>(node)});
  }
  return host;
}

std::vector<int> Threads(const std::vector<RankCores>& ranks) {
  std::vector<int> threads;
  for (const RankCores& rank : ranks) threads.push_back(rank.threads);
  return threads;
}

TEST(RankCoresTest, OneRankHasEverything) {
  for (const CoreBinding binding : {CoreBinding::kNone, CoreBinding::kNode, CoreBinding::kCores}) {
    const std::vector<RankCores> ranks = CoresOfRanks(Host({4, 4}), 1, binding, false);
    ASSERT_EQ(ranks.size(), 1u);
    EXPECT_EQ(ranks[0].threads, 8);
    EXPECT_THAT(ranks[0].processors, IsEmpty());
  }
}

TEST(RankCoresTest, OnOneNodeOnlyCoresBind) {
  EXPECT_THAT(CoresOfRanks(Host({4}), 2, CoreBinding::kNode, false)[1].processors, IsEmpty());
  const std::vector<RankCores> ranks = CoresOfRanks(Host({5}), 2, CoreBinding::kCores, false);
  EXPECT_THAT(ranks[0].processors, ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(ranks[1].processors, ElementsAre(2, 3, 4, 7, 8, 9));
  EXPECT_THAT(Threads(ranks), ElementsAre(2, 3));
}

TEST(RankCoresTest, RanksAreSpreadOverNodes) {
  const std::vector<RankCores> ranks = CoresOfRanks(Host({2, 2}), 4, CoreBinding::kNode, false);
  EXPECT_THAT(ranks[1].processors, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(ranks[1].numa_nodes, ElementsAre(0));
  EXPECT_THAT(ranks[2].processors, ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(ranks[2].numa_nodes, ElementsAre(1));
  EXPECT_THAT(Threads(ranks), ElementsAre(1, 1, 1, 1));
  // Where a cpuset leaves more of one node, more ranks.
  const std::vector<RankCores> uneven = CoresOfRanks(Host({6, 2}), 4, CoreBinding::kCores, false);
  EXPECT_THAT(Threads(uneven), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(uneven[2].numa_nodes, ElementsAre(0));
  EXPECT_THAT(uneven[3].numa_nodes, ElementsAre(1));
}

TEST(RankCoresTest, FewRanksHaveSeveralNodes) {
  const std::vector<RankCores> ranks = CoresOfRanks(Host({1, 1, 1}), 2, CoreBinding::kCores, false);
  EXPECT_THAT(ranks[0].processors, ElementsAre(0, 3));
  EXPECT_THAT(ranks[1].processors, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(ranks[1].numa_nodes, ElementsAre(1, 2));
  EXPECT_THAT(Threads(ranks), ElementsAre(1, 2));
}

TEST(RankCoresTest, MoreRanksThanCoresShareThem) {
  const std::vector<RankCores> ranks = CoresOfRanks(Host({2}), 5, CoreBinding::kCores, true);
  ASSERT_EQ(ranks.size(), 5u);
  EXPECT_THAT(ranks[0].processors, ElementsAre(0, 2));
  EXPECT_THAT(ranks[4].processors, ElementsAre(1, 3));
  EXPECT_THAT(Threads(ranks), ElementsAre(1, 1, 1, 1, 1));
}

TEST(RankCoresTest, ThreadsLeaveOneCoreToTheExchangeWhereThereAreEnough) {
  EXPECT_THAT(Threads(CoresOfRanks(Host({8}), 2, CoreBinding::kNone, true)), ElementsAre(3, 3));
  EXPECT_THAT(Threads(CoresOfRanks(Host({6}), 2, CoreBinding::kNone, true)), ElementsAre(3, 3));
  EXPECT_THAT(Threads(CoresOfRanks(Host({8}), 2, CoreBinding::kNone, false)), ElementsAre(4, 4));
}

TEST(RankCoresTest, AQuotaIsSharedByTheRanks) {
  HostCores host = Host({4, 4});
  host.quota = 5.5;
  EXPECT_THAT(Threads(CoresOfRanks(host, 2, CoreBinding::kNode, false)), ElementsAre(2, 2));
  EXPECT_THAT(Threads(CoresOfRanks(host, 1, CoreBinding::kNode, false)), ElementsAre(5));
  host.quota = 0.5;
  EXPECT_THAT(Threads(CoresOfRanks(host, 2, CoreBinding::kNode, false)), ElementsAre(1, 1));
}

TEST(RankCoresTest, WhatOthersLeaveIsSharedByTheRanks) {
  HostCores host = Host({4, 4});
  host.busy = 2;
  EXPECT_THAT(Threads(CoresOfRanks(host, 1, CoreBinding::kNode, false)), ElementsAre(6));
  EXPECT_THAT(Threads(CoresOfRanks(host, 2, CoreBinding::kNode, false)), ElementsAre(3, 3));
  host.busy = 8;
  EXPECT_THAT(Threads(CoresOfRanks(host, 2, CoreBinding::kNode, true)), ElementsAre(1, 1));
}

TEST(RankCoresTest, AreDescribed) {
  HostCores host = Host({1, 1});
  host.quota = 1.5;
  EXPECT_EQ(Describe(host, CoresOfRanks(host, 2, CoreBinding::kNode, false)),
            "2 cores on 2 NUMA nodes, the time of 1.5 processors; rank 0: 1 thread on "
            "processors 0,2 (NUMA node 0); rank 1: 1 thread on processors 1,3 (NUMA node 1)");
  EXPECT_EQ(Describe(Host({2}), CoresOfRanks(Host({2}), 1, CoreBinding::kNode, false)),
            "2 cores on 1 NUMA node; rank 0: 2 threads on any core");
  host = Host({3});
  host.busy = 1;
  EXPECT_EQ(Describe(host, CoresOfRanks(host, 1, CoreBinding::kNode, false)),
            "3 cores on 1 NUMA node, 1 busy with other work; rank 0: 2 threads on any core");
}

}  // namespace
}  // namespace longhaul
