#include "common/metrics/shown_series.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ShownSeriesTest, SeriesThatAreNotShownAgainEnd) {
  MetricRegistry registry;
  GaugeFamily& steps = registry.Gauge("longhaul_pool_steps", "Steps.");
  CounterFamily& tokens = registry.Counter("longhaul_pool_tokens_total", "Tokens.");
  ShownSeries shown;
  shown.Show(steps, {{"pool", "a"}}).Set(1);
  shown.Show(steps, {{"pool", "b"}}).Set(2);
  shown.Show(tokens, {{"pool", "a"}}).Increment(10);
  shown.Sweep();
  EXPECT_THAT(registry.Text(), HasSubstr("longhaul_pool_steps{pool=\"b\"} 2"));
  shown.Show(steps, {{"pool", "a"}}).Set(3);
  shown.Sweep();
  EXPECT_THAT(registry.Text(), HasSubstr("longhaul_pool_steps{pool=\"a\"} 3"));
  EXPECT_THAT(registry.Text(), Not(HasSubstr("pool=\"b\"")));
  EXPECT_THAT(registry.Text(), Not(HasSubstr("longhaul_pool_tokens_total{")));
  shown.Clear();
  EXPECT_THAT(registry.Text(), Not(HasSubstr("pool=")));
}

}  // namespace
}  // namespace longhaul
