#include "worker/engine/partition_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(PartitionMapTest, DdpSplitsNothing) {
  for (const char* name : {"", "ddp"}) {
    const PartitionMap map = PartitionPreset(name).value();
    EXPECT_EQ(map.weights, PartitionLevel::kNone);
    EXPECT_EQ(map.gradients, PartitionLevel::kNone);
    EXPECT_EQ(map.optimizer, PartitionLevel::kNone);
  }
}

TEST(PartitionMapTest, Zero1SplitsTheOptimizer) {
  const PartitionMap map = PartitionPreset("zero1").value();
  EXPECT_EQ(map.weights, PartitionLevel::kNone);
  EXPECT_EQ(map.gradients, PartitionLevel::kNone);
  EXPECT_EQ(map.optimizer, PartitionLevel::kPool);
}

TEST(PartitionMapTest, Zero2SplitsTheGradientsToo) {
  const PartitionMap map = PartitionPreset("zero2").value();
  EXPECT_EQ(map.weights, PartitionLevel::kNone);
  EXPECT_EQ(map.gradients, PartitionLevel::kPool);
  EXPECT_EQ(map.optimizer, PartitionLevel::kPool);
}

TEST(PartitionMapTest, RefusesOtherPresetsByName) {
  for (const char* name : {"zero3", "zeropp", "frontier3"}) {
    EXPECT_EQ(PartitionPreset(name).status().code(), absl::StatusCode::kUnimplemented) << name;
  }
  const absl::Status status = PartitionPreset("zero9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("zero9"));
}

}  // namespace
}  // namespace longhaul
