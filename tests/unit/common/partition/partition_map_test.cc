#include "common/partition/partition_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Topology Nodes(std::vector<int> ranks) { return Topology::Make(ranks).value(); }

std::vector<std::string> FieldsOf(const PartitionMap& map) {
  std::vector<std::string> fields;
  for (const PartitionProblem& problem : FindProblems(map)) fields.push_back(problem.field);
  return fields;
}

TEST(PartitionMapTest, PresetsMakeSense) {
  for (const char* name : PartitionPresets()) {
    const auto map = PartitionPreset(name);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_THAT(FindProblems(*map), IsEmpty()) << name;
    EXPECT_TRUE(CheckTopology(*map, Nodes({4, 4})).ok()) << name;
  }
  EXPECT_EQ(PartitionPreset("").value(), PartitionMap{});
}

TEST(PartitionMapTest, RefusesOtherNames) {
  const absl::Status status = PartitionPreset("zero9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("zero9"));
}

TEST(PartitionMapTest, FindsMapsThatMakeNoSense) {
  using testing::ElementsAre;
  constexpr Level kNode = Level::kNode, kPool = Level::kPool;
  EXPECT_THAT(FieldsOf({.weights = {kPool}}), ElementsAre("weights.level"));
  EXPECT_THAT(FieldsOf({.gradients = {kPool}, .optimizer = kNode}), ElementsAre("gradients.level"));
  EXPECT_THAT(FieldsOf({.weights = {kPool, 5}, .optimizer = kPool}), ElementsAre("weights.bits"));
  EXPECT_THAT(FieldsOf({.weights = {Level::kRank, 8}}), ElementsAre("weights.bits"));
  EXPECT_THAT(FieldsOf({.gradients = {kPool, 16}, .error_feedback = true, .optimizer = kPool}),
              ElementsAre("gradients.error_feedback"));
  EXPECT_THAT(FieldsOf({.gradients = {kPool, 4},
                        .error_feedback = true,
                        .error_beta = 1,
                        .error_reset_steps = -1,
                        .optimizer = kPool}),
              ElementsAre("gradients.error_beta", "gradients.error_reset_steps"));
  EXPECT_THAT(FieldsOf({.gradients = {kPool, 4},
                        .error_feedback = true,
                        .error_beta = std::nan(""),
                        .optimizer = kPool}),
              ElementsAre("gradients.error_beta"));
  EXPECT_THAT(
      FieldsOf(
          {.gradients = {kPool, 4}, .error_beta = 0.8, .error_reset_steps = 7, .optimizer = kPool}),
      ElementsAre("gradients.error_beta", "gradients.error_reset_steps"));
  EXPECT_THAT(FieldsOf({.secondary = Spread{kNode}}), ElementsAre("secondary"));
  EXPECT_THAT(FieldsOf({.weights = {kNode}, .secondary = Spread{kNode}, .optimizer = kPool}),
              ElementsAre("secondary.level"));
  EXPECT_THAT(FieldsOf({.weights = {kPool}, .secondary = Spread{Level::kRank}, .optimizer = kPool}),
              ElementsAre("secondary.level"));
}

TEST(PartitionMapTest, SaysWhichPoolsCannotSplitSo) {
  const PartitionMap zeropp = *PartitionPreset("zeropp"), frontier3 = *PartitionPreset("frontier3"),
                     zero3 = *PartitionPreset("zero3");
  EXPECT_TRUE(CheckTopology(zero3, Nodes({2, 1})).ok());
  EXPECT_THAT(std::string(CheckTopology(zeropp, Nodes({2, 1})).message()),
              HasSubstr("secondary over the node: nodes differ in size"));
  EXPECT_THAT(std::string(CheckTopology(frontier3, Nodes({3, 3})).message()),
              HasSubstr("weights over the pair: node 0 has 3 ranks"));
}

TEST(PartitionMapTest, NormalizingRemovesPartsWithoutEffect) {
  const PartitionMap zeropp = *PartitionPreset("zeropp"), frontier3 = *PartitionPreset("frontier3"),
                     zero3 = *PartitionPreset("zero3");
  EXPECT_EQ(Normalized(zero3, Nodes({1})), PartitionMap{});
  EXPECT_EQ(Normalized(zero3, Nodes({1, 1})), zero3);
  EXPECT_EQ(Normalized(zeropp, Nodes({2, 2})), zeropp);
  EXPECT_EQ(Normalized(frontier3, Nodes({4, 4})), frontier3);
  EXPECT_EQ(Normalized(zeropp, Nodes({4})).secondary, std::nullopt) << "it would be the weights";
  EXPECT_EQ(Normalized(frontier3, Nodes({2, 2})).secondary, std::nullopt) << "pairs are nodes";
}

}  // namespace
}  // namespace longhaul
