#include "common/metrics/process_metrics.h"

#include <unistd.h>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

TEST(ProcessMetricsTest, ReadsThisProcess) {
  const ProcessFigures figures = ReadProcess(0).value();
  EXPECT_GE(figures.threads, 1);
  EXPECT_GT(figures.resident_bytes, 1e5);
  EXPECT_GT(figures.virtual_bytes, figures.resident_bytes);
  const auto now = static_cast<double>(absl::ToUnixSeconds(absl::Now()));
  EXPECT_NEAR(figures.start_time, now, 3600);
  EXPECT_EQ(ReadProcess(getpid())->start_time, figures.start_time);
  EXPECT_FALSE(ReadProcess(-5).has_value());
}

TEST(ProcessMetricsTest, IsReadAgainForEachScrape) {
  MetricRegistry registry;
  AddProcessMetrics(registry, "longhaul_worker_build_info", "1.2.3");
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter"));
  EXPECT_THAT(text, HasSubstr("process_open_fds "));
  EXPECT_THAT(text, HasSubstr("version=\"1.2.3\"} 1"));
}

}  // namespace
}  // namespace longhaul
