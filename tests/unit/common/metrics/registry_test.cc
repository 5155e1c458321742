#include "common/metrics/registry.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricRegistryTest, WritesEverySeries) {
  MetricRegistry registry;
  registry.Counter("longhaul_sync_bytes_total", "Bytes.").With({{"direction", "up"}}).Increment(3);
  registry.Gauge("longhaul_job_jobs", "Jobs.").With().Set(2);
  registry.Histogram("longhaul_sync_round_seconds", "Rounds.", {1, 10}).With().Observe(5);
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE longhaul_sync_bytes_total counter"));
  EXPECT_THAT(text, HasSubstr("longhaul_sync_bytes_total{direction=\"up\"} 3"));
  EXPECT_THAT(text, HasSubstr("longhaul_job_jobs 2"));
  EXPECT_THAT(text, HasSubstr("longhaul_sync_round_seconds_bucket{le=\"10\"} 1"));
}

TEST(MetricRegistryTest, SameLabelsAreTheSameSeries) {
  MetricRegistry registry;
  CounterFamily& bytes = registry.Counter("longhaul_sync_bytes_total", "Bytes.");
  EXPECT_EQ(&bytes.With({{"job", "a"}}), &bytes.With({{"job", "a"}}));
  EXPECT_NE(&bytes.With({{"job", "a"}}), &bytes.With({{"job", "b"}}));
}

TEST(MetricRegistryTest, SeriesBeyondTheBoundCountAsOther) {
  MetricRegistry registry(/*series_max=*/2);
  CounterFamily& bytes = registry.Counter("longhaul_sync_bytes_total", "Bytes.");
  for (const char* job : {"a", "b", "c", "d", "a"}) bytes.With({{"job", job}}).Increment();
  const std::string text = registry.Text();
  EXPECT_THAT(text, HasSubstr("{job=\"a\"} 2"));
  EXPECT_THAT(text, HasSubstr("{job=\"other\"} 2"));
  EXPECT_THAT(text, Not(HasSubstr("{job=\"c\"}")));
}

TEST(MetricRegistryTest, AGaugeMayBeReadWhenItIsShown) {
  MetricRegistry registry;
  std::optional<double> free;
  registry.Gauge("longhaul_disk_free_bytes", "Free.", [&free] { return free; });
  EXPECT_THAT(registry.Text(), Not(HasSubstr("longhaul_disk_free_bytes 0")));
  for (const double value : {5.0, 3.0}) {
    free = value;
    EXPECT_THAT(registry.Text(), HasSubstr(absl::StrCat("longhaul_disk_free_bytes ", value)));
  }
  EXPECT_THAT(registry.Text(), HasSubstr("# HELP longhaul_disk_free_bytes Free.\n"
                                         "# TYPE longhaul_disk_free_bytes gauge\n"));
}

TEST(MetricRegistryTest, RemovedSeriesMakeRoom) {
  MetricRegistry registry(/*series_max=*/1);
  GaugeFamily& steps = registry.Gauge("longhaul_job_step_steps", "Steps.");
  steps.With({{"job", "a"}}).Set(1);
  steps.Remove({{"job", "a"}});
  steps.Remove({{"job", "never there"}});
  steps.With({{"job", "b"}}).Set(2);
  EXPECT_THAT(registry.Text(), HasSubstr("{job=\"b\"} 2"));
  EXPECT_THAT(registry.Text(), Not(HasSubstr("{job=\"a\"}")));
}

TEST(MetricRegistryTest, AJobsSeriesEndTogether) {
  MetricRegistry registry;
  CounterFamily& bytes = registry.Counter("longhaul_sync_bytes_total", "Bytes.");
  for (const char* fragment : {"0", "1"}) {
    bytes.With({{kJobLabel, "ended"}, {"fragment", fragment}}).Increment();
    bytes.With({{kJobLabel, "goes-on"}, {"fragment", fragment}}).Increment();
  }
  bytes.With().Increment();
  bytes.RemoveWhere(kJobLabel, "ended");
  EXPECT_THAT(registry.Text(), Not(HasSubstr("ended")));
  EXPECT_THAT(registry.Text(), HasSubstr("{fragment=\"1\",job_name=\"goes-on\"} 1"));
  EXPECT_THAT(registry.Text(), HasSubstr("longhaul_sync_bytes_total 1"));
}

TEST(MetricRegistryTest, ASumThatIsKeptElsewhereNeverFalls) {
  MetricRegistry registry;
  prometheus::Counter& tokens = registry.Counter("longhaul_pool_tokens_total", "Tokens.").With();
  for (const double value : {5.0, 3.0, 8.0}) RaiseTo(tokens, value);
  EXPECT_EQ(tokens.Value(), 8);
}

TEST(MetricRegistryTest, IsAPage) {
  MetricRegistry registry;
  registry.Gauge("longhaul_job_jobs", "Jobs.").With().Set(2);
  Pages pages;
  AddMetricsPage(pages, registry);
  EXPECT_THAT(pages.all().at("/metrics")({}).body, HasSubstr("longhaul_job_jobs 2"));
}

TEST(MetricRegistryDeathTest, RefusesNamesThatBreakTheRule) {
  MetricRegistry registry;
  EXPECT_DEATH(registry.Counter("longhaul_sync_bytes", "No _total."), "longhaul_sync_bytes");
  EXPECT_DEATH(registry.Gauge("other_job_jobs", "No prefix."), "other_job_jobs");
}

}  // namespace
}  // namespace longhaul
