#include "worker/engine/shard_plan.h"

#include <gtest/gtest.h>

#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

const PartitionMap kDdp, kZero1{.optimizer = Level::kPool};

Topology Nodes(std::vector<int> ranks) { return Topology::Make(ranks).value(); }

ModelLayout DecoderLayout() {
  return LayOutTransformer({.layers = 2,
                            .dim = 16,
                            .heads = 2,
                            .kv_heads = 1,
                            .ff_dim = 24,
                            .context = 4,
                            .vocab = 11})
      .value();
}

TEST(ShardPlanTest, PiecesCoverEachUnitInOrderAtBlocks) {
  const ModelLayout layout = DecoderLayout();
  for (int ranks : {1, 2, 3, 4, 64}) {
    const ShardPlan plan(layout, kZero1, Nodes({ranks}), 0);
    for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
      int64_t next = 0;
      for (const ElementRange& range : plan.pieces(unit)) {
        EXPECT_EQ(range.first, next);
        EXPECT_TRUE(range.count == 0 || range.first % kBlockElements == 0);
        next = range.end();
      }
      EXPECT_EQ(next, layout.units[unit].elements);
    }
  }
}

// What the ranks of a group hold together is what one of them holds of a narrower level.
TEST(ShardPlanTest, WhatRanksHoldNests) {
  const ModelLayout layout = DecoderLayout();
  const Topology topology = Nodes({4, 4, 4});
  constexpr Level kLevels[] = {Level::kRank, Level::kPair, Level::kNode, Level::kPool};
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    const ShardPlan plan(layout, kZero1, topology, rank);
    EXPECT_EQ(plan.Held(1, Level::kPool), plan.owned(1));
    EXPECT_EQ(plan.Held(1, Level::kRank), (ElementRange{0, layout.units[1].elements}));
    for (const Level wide : kLevels) {
      int64_t in_group = 0;
      for (const int other : topology.Group(wide, rank))
        in_group += plan.Held(1, wide, other).count;
      EXPECT_EQ(in_group, layout.units[1].elements) << LevelName(wide);
      for (const Level narrow : kLevels) {
        if (narrow > wide) continue;
        EXPECT_GE(plan.Held(1, wide).first, plan.Held(1, narrow).first);
        EXPECT_LE(plan.Held(1, wide).end(), plan.Held(1, narrow).end());
      }
    }
  }
}

TEST(ShardPlanTest, DdpUpdatesEverythingOnEveryRank) {
  const ModelLayout layout = DecoderLayout();
  const ShardPlan plan(layout, kDdp, Nodes({3}), 1);
  int64_t updated = 0;
  for (const UnitSubgroup& subgroup : plan.subgroups()) updated += subgroup.range.count;
  EXPECT_EQ(updated, layout.elements());
}

TEST(ShardPlanTest, Zero1UpdatesWhatItOwns) {
  const ModelLayout layout = DecoderLayout();
  for (int rank = 0; rank < 3; ++rank) {
    const ShardPlan plan(layout, kZero1, Nodes({2, 1}), rank);
    std::vector<int64_t> updated(layout.units.size());
    for (const UnitSubgroup& subgroup : plan.subgroups()) {
      EXPECT_GE(subgroup.range.first, plan.owned(subgroup.unit).first);
      EXPECT_LE(subgroup.range.end(), plan.owned(subgroup.unit).end());
      updated[subgroup.unit] += subgroup.range.count;
    }
    for (size_t unit = 0; unit < updated.size(); ++unit)
      EXPECT_EQ(updated[unit], plan.owned(unit).count);
  }
}

TEST(ShardPlanTest, SubgroupsAreCutToTheirBound) {
  const ModelLayout layout = DecoderLayout();
  const ShardPlan whole(layout, kZero1, Nodes({2}), 1),
      cut(layout, kZero1, Nodes({2}), 1, CutRule::kBlocks, 128);
  size_t i = 0;
  for (const UnitSubgroup& subgroup : whole.subgroups()) {
    int64_t next = subgroup.range.first;
    for (; next < subgroup.range.end(); ++i) {
      const UnitSubgroup& part = cut.subgroups().at(i);
      EXPECT_EQ(part.unit, subgroup.unit);
      EXPECT_EQ(part.shape.decay, subgroup.shape.decay);
      EXPECT_EQ(part.range.first, next);
      EXPECT_EQ(part.range.count, part.shape.elements);
      EXPECT_LE(part.range.count, 128);
      next = part.range.end();
    }
    EXPECT_EQ(next, subgroup.range.end());
  }
  EXPECT_EQ(i, cut.subgroups().size());
  EXPECT_GT(i, whole.subgroups().size());
}

TEST(ShardPlanTest, SubgroupsSeparateDecayFromNoDecay) {
  const ModelLayout layout = DecoderLayout();
  const ShardPlan plan(layout, kDdp, Nodes({1}), 0);
  for (const UnitSubgroup& subgroup : plan.subgroups()) {
    for (const TensorLayout& tensor : layout.units[subgroup.unit].tensors) {
      const bool overlaps = tensor.offset < subgroup.range.end() &&
                            subgroup.range.first < tensor.offset + tensor.elements;
      EXPECT_TRUE(!overlaps || tensor.decay == subgroup.shape.decay) << tensor.name;
    }
  }
  EXPECT_EQ(plan.subgroups().size(),
            1u + 2 * 2 + 2);  // Embedding; matrices and norms of a block; norm and projection.
}

}  // namespace
}  // namespace longhaul
