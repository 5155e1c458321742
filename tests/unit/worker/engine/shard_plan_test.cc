#include "worker/engine/shard_plan.h"

#include <gtest/gtest.h>

#include "common/layout/fragment_layout.h"

namespace longhaul {
namespace {

const PartitionMap kDdp, kZero1{.optimizer = PartitionLevel::kPool};

ModelLayout Layout() {
  return LayOutTransformer({.layers = 2,
                            .dim = 16,
                            .heads = 2,
                            .kv_heads = 1,
                            .ff_dim = 24,
                            .context = 4,
                            .vocab = 11})
      .value();
}

TEST(ShardPlanTest, OwnersCoverEachUnitInOrderAtBlocks) {
  const ModelLayout layout = Layout();
  for (int ranks : {1, 2, 3, 4, 64}) {
    const ShardPlan plan(layout, kZero1, 0, ranks);
    for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
      int64_t next = 0;
      for (const ElementRange& range : plan.owners(unit)) {
        EXPECT_EQ(range.first, next);
        EXPECT_TRUE(range.count == 0 || range.first % kBlockElements == 0);
        next = range.end();
      }
      EXPECT_EQ(next, layout.units[unit].elements);
    }
  }
}

TEST(ShardPlanTest, DdpUpdatesEverythingOnEveryRank) {
  const ModelLayout layout = Layout();
  const ShardPlan plan(layout, kDdp, 1, 3);
  EXPECT_FALSE(plan.splits_optimizer());
  int64_t updated = 0;
  for (const UpdateRun& run : plan.runs()) updated += run.range.count;
  EXPECT_EQ(updated, layout.elements());
}

TEST(ShardPlanTest, Zero1UpdatesWhatItOwns) {
  const ModelLayout layout = Layout();
  for (int rank = 0; rank < 3; ++rank) {
    const ShardPlan plan(layout, kZero1, rank, 3);
    EXPECT_TRUE(plan.splits_optimizer());
    std::vector<int64_t> updated(layout.units.size());
    for (const UpdateRun& run : plan.runs()) {
      EXPECT_GE(run.range.first, plan.owned(run.unit).first);
      EXPECT_LE(run.range.end(), plan.owned(run.unit).end());
      updated[run.unit] += run.range.count;
    }
    for (size_t unit = 0; unit < updated.size(); ++unit)
      EXPECT_EQ(updated[unit], plan.owned(unit).count);
  }
}

TEST(ShardPlanTest, RunsSeparateDecayFromNoDecay) {
  const ModelLayout layout = Layout();
  const ShardPlan plan(layout, kDdp, 0, 1);
  for (const UpdateRun& run : plan.runs()) {
    for (const TensorLayout& tensor : layout.units[run.unit].tensors) {
      const bool overlaps =
          tensor.offset < run.range.end() && run.range.first < tensor.offset + tensor.elements;
      EXPECT_TRUE(!overlaps || tensor.decay == run.decay) << tensor.name;
    }
  }
  EXPECT_EQ(plan.runs().size(),
            1u + 2 * 2 + 2);  // Embedding; matrices and norms of a block; norm and projection.
}

}  // namespace
}  // namespace longhaul
