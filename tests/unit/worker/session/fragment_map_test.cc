#include "worker/session/fragment_map.h"

#include <numeric>

#include "gtest/gtest.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul::session {
namespace {

// Two units of 300 elements: the second begins at element 384, after a gap of 84.
FragmentLayout TwoUnits() {
  return {.name = "0", .units = {{0, 0, 300}, {1, 384, 300}}, .elements = 684};
}

std::unique_ptr<SyntheticReplica> MakeReplica() {
  auto replica = SyntheticReplica::Create({.units = 2, .elements = 300, .initial = 0});
  EXPECT_TRUE(replica.ok());
  return *std::move(replica);
}

TEST(FragmentMapTest, OneRankOwnsTheWholeFragment) {
  const FragmentMap map(TwoUnits(), OwnedBlocks(TwoUnits(), 0, 1));
  EXPECT_EQ(map.elements(), 684);
  EXPECT_EQ(map.units(), (std::vector<int>{0, 1}));
}

TEST(FragmentMapTest, RanksOwnEveryBlockOnce) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<int> owners(6);
    for (int rank = 0; rank < ranks; ++rank) {
      const FragmentMap map(TwoUnits(), OwnedBlocks(TwoUnits(), rank, ranks));
      for (const BlockRange& range : map.blocks()) {
        for (int64_t b = range.first; b < range.end(); ++b) ++owners[b];
      }
    }
    EXPECT_EQ(owners, std::vector<int>(6, 1)) << ranks;
  }
}

TEST(FragmentMapTest, WhatIsWrittenIsReadBackAndGapsAreZero) {
  auto replica = MakeReplica();
  for (int rank = 0; rank < 2; ++rank) {
    const FragmentMap map(TwoUnits(), OwnedBlocks(TwoUnits(), rank, 2));
    std::vector<float> local(map.elements());
    std::iota(local.begin(), local.end(), 1.0f);
    ASSERT_TRUE(map.Write(*replica, local).ok());
    std::vector<float> back(map.elements(), 77.0f);
    ASSERT_TRUE(map.Read(*replica, absl::MakeSpan(back)).ok());
    int differ = 0;
    for (size_t i = 0; i < back.size(); ++i) {
      if (back[i] != local[i]) {
        EXPECT_EQ(back[i], 0);
        ++differ;
      }
    }
    EXPECT_LE(differ, 84);
  }
}

TEST(FragmentMapTest, LocalOffsetsFollowTheSegments) {
  const FragmentMap map(TwoUnits(), OwnedBlocks(TwoUnits(), 1, 2));
  int64_t expected = 0;
  for (const SegmentRef& segment : map.segments()) {
    EXPECT_EQ(map.LocalOffset(segment), expected);
    expected += segment.elements;
  }
  EXPECT_EQ(expected, map.elements());
}

TEST(FragmentMapTest, AFragmentOfOneBlockLeavesLaterRanksNothing) {
  const FragmentLayout tiny{.name = "0", .units = {{0, 0, 1}}, .elements = 1};
  EXPECT_EQ(FragmentMap(tiny, OwnedBlocks(tiny, 0, 2)).elements(), 1);
  EXPECT_TRUE(FragmentMap(tiny, OwnedBlocks(tiny, 1, 2)).blocks().empty());
  EXPECT_EQ(FragmentMap(tiny, OwnedBlocks(tiny, 1, 2)).elements(), 0);
}

}  // namespace
}  // namespace longhaul::session
