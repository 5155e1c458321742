#include "common/plan/stride_law.h"

#include <gtest/gtest.h>

#include <vector>

namespace longhaul::plan {
namespace {

// Deep Optimizer States, 7B parameters on four A100: the law of all strides that were measured
// meets the time at stride 2.
TEST(StrideLawTest, MeetsAPublishedTime) {
  const StrideLaw law{.host = 1.544, .device = 1.168};
  EXPECT_NEAR(law.Seconds(2), 1.336, 0.022 * 1.336);
  EXPECT_LT(law.Seconds(2), law.Seconds(3));
}

TEST(StrideLawTest, IsFoundFromTwoTimesAndMore) {
  const StrideLaw law{.host = 4, .device = 3};
  std::vector<StridePoint> points;
  for (const int stride : {3, 8, 2, 5}) {
    points.push_back({stride, law.Seconds(stride)});
    if (points.size() < 2) continue;
    const auto fitted = FitStrideLaw(points);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    EXPECT_NEAR(fitted->host, 4, 1e-9);
    EXPECT_NEAR(fitted->device, 3, 1e-9);
  }
}

TEST(StrideLawTest, RefusesWhatNoLawFits) {
  EXPECT_FALSE(FitStrideLaw({}).ok());
  EXPECT_FALSE(FitStrideLaw({{2, 1.0}}).ok());
  EXPECT_FALSE(FitStrideLaw({{2, 1.0}, {2, 1.1}}).ok());
  EXPECT_FALSE(FitStrideLaw({{0, 1.0}, {2, 1.1}}).ok());
  EXPECT_FALSE(FitStrideLaw({{3, -1.0}, {2, 1.1}}).ok());
  EXPECT_FALSE(FitStrideLaw({{2, 1.0}, {8, 9.0}}).ok());
}

TEST(StrideLawTest, TheSlowestResourceBounds) {
  UpdateResources resources{.parameters = 1e9,
                            .host_rate = 1e9,
                            .device_rate = 1e11,
                            .up_rate = 5e10,
                            .down_rate = 5e10,
                            .memory_rate = 1e12,
                            .ranks = 1};
  EXPECT_NEAR(BoundSeconds(resources, 2), 0.5, 1e-9);  // The host.
  resources.host_rate = 1e12;
  EXPECT_NEAR(BoundSeconds(resources, 2), 7e9 / 5e10, 1e-9);  // Copies up.
  resources.ranks = 16;
  EXPECT_NEAR(BoundSeconds(resources, 2), 16 * 30e9 / 1e12, 1e-9);  // The memory.
}

}  // namespace
}  // namespace longhaul::plan
