#include "common/metrics/pool_metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PoolMetricsTest, ShowsWhatAPoolReports) {
  MetricRegistry registry;
  PoolMetrics metrics(registry, "longhaul_coordinator_pool");
  ShownSeries shown;
  v1::PoolProgress progress;
  progress.set_pool("site-a");
  progress.set_inner_step(30);
  progress.set_tokens(4096);
  progress.set_train_loss(2.5);
  progress.set_exposed_wait_seconds(1.5);
  progress.mutable_gradient()->set_node(77);
  progress.set_weights_nmse(0.25);
  metrics.Show("tiny", progress, shown);
  const std::string text = registry.Text();
  for (const char* line : {
           "longhaul_coordinator_pool_inner_step{job_name=\"tiny\",pool=\"site-a\"} 30",
           "longhaul_coordinator_pool_tokens_total{job_name=\"tiny\",pool=\"site-a\"} 4096",
           "longhaul_coordinator_pool_train_loss_nats{job_name=\"tiny\",pool=\"site-a\"} 2.5",
           "longhaul_coordinator_pool_training_seconds_total{activity=\"exposed_wait\","
           "job_name=\"tiny\",pool=\"site-a\"} 1.5",
           "longhaul_coordinator_pool_in_pool_received_bytes_total{job_name=\"tiny\","
           "level=\"node\",pool=\"site-a\",use=\"gradient\"} 77",
           "longhaul_coordinator_pool_in_pool_nmse_ratio{job_name=\"tiny\",pool=\"site-a\","
           "what=\"weights\"} 0.25",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // Levels over which nothing moves, and exact transfers, have no series.
  EXPECT_THAT(text, Not(HasSubstr("level=\"pair\"")));
  EXPECT_THAT(text, Not(HasSubstr("what=\"gradients\"")));
}

TEST(PoolMetricsTest, SumsDoNotFall) {
  MetricRegistry registry;
  PoolMetrics metrics(registry, "longhaul_worker_pool");
  ShownSeries shown;
  v1::PoolProgress progress;
  progress.set_pool("site-a");
  for (const int tokens : {100, 50}) {
    progress.set_tokens(tokens);
    metrics.Show("tiny", progress, shown);
  }
  EXPECT_THAT(registry.Text(), HasSubstr("tokens_total{job_name=\"tiny\",pool=\"site-a\"} 100"));
}

}  // namespace
}  // namespace longhaul
