#include "coordinator/simulation/job_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/config/load.h"
#include "common/plan/job/job_forecast.h"

namespace longhaul::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr char kSimulated[] =
    "{name: simulated, model: {transformer: {layers: 4, dim: 256, heads: 4, ff_dim: 768, context: "
    "256}}, data: {text: {path: corpus}}, train: {steps: 50000, batch: 8}, sync: {h: 20}, "
    "pools: {min: 1}}";

ResolvedJob JobWith(const std::vector<std::string>& overrides = {}) {
  return ResolveJobSpec(ParseJobSpec(kSimulated, overrides).value()).value();
}

v1::Sites SitesOf(const ResolvedJob& job, double mbps, double rtt_ms = 0) {
  v1::Sites sites;
  sites.add_pools()->set_tokens_per_second(5000);
  plan::SetLinks(mbps, sites);
  sites.mutable_pools(0)->mutable_link()->set_rtt_ms(rtt_ms);
  return plan::CompleteSites(job, sites).value();
}

JobSimulationResult Simulated(const ResolvedJob& job, const v1::Sites& sites,
                              const JobSimulationOptions& options) {
  const auto result = SimulateJob(job, sites, options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->completed) << result->why;
  return *result;
}

// The cores take the same times as the model of the exchange, which knows no evaluations: other
// pools wait for one that evaluates.
TEST(JobSimulationTest, AgreesWithTheForecast) {
  for (const double mbps : {3.0, 12.0, 100.0}) {
    for (const char* tau : {"sync.tau=0", "sync.tau=5"}) {
      for (const int pools : {1, 3}) {
        const ResolvedJob job = JobWith({tau, "evaluation.every_cycles=-1"});
        const JobSimulationResult result =
            Simulated(job, SitesOf(job, mbps, 50), {.pools = pools, .rounds = 300});
        EXPECT_NEAR(result.utilization, result.forecast_utilization, 0.03)
            << mbps << " Mbit/s, " << tau << ", " << pools;
        EXPECT_EQ(result.skipped, 0);
        EXPECT_EQ(result.contributed, 1);
        EXPECT_EQ(result.tokens, 8.0 * 256 * pools * static_cast<double>(result.steps));
        EXPECT_EQ(result.committed_tokens, result.tokens);
      }
    }
  }
}

TEST(JobSimulationTest, CountsRoundsAndBytes) {
  const ResolvedJob job = JobWith();
  const JobSimulationResult result = Simulated(job, SitesOf(job, 100), {.pools = 2, .rounds = 40});
  const auto setting = plan::ExchangeSettingOf(job, SitesOf(job, 100));
  const auto fragments = static_cast<int64_t>(setting.fragments.size());
  // And the final round.
  EXPECT_GE(result.commits, 40 + fragments);
  EXPECT_LE(result.commits, 40 + 3 * fragments);
  double cycle = 0, seed = 0;
  for (const plan::ExchangedFragment& fragment : setting.fragments) {
    cycle += fragment.up_bytes;
    seed += 4.0 * static_cast<double>(fragment.elements);
  }
  EXPECT_NEAR(result.bytes_up, seed + 2 * cycle * static_cast<double>(result.commits) / fragments,
              1);
  EXPECT_GT(result.coordinator_bytes, 12 * job.model.elements());
}

std::vector<SimulatedFault> Faults() {
  return {{.kind = FaultKind::kPoolLost, .at_seconds = 30, .per_hour = 20, .lasts_seconds = 60},
          {.kind = FaultKind::kSlow, .per_hour = 20, .lasts_seconds = 60, .factor = 4},
          {.kind = FaultKind::kLinkDown, .pool = 2, .at_seconds = 100, .lasts_seconds = 20},
          {.kind = FaultKind::kCoordinatorDown, .at_seconds = 200, .lasts_seconds = 15}};
}

TEST(JobSimulationTest, AJobWithFaultsCompletesAndTakesLonger) {
  const ResolvedJob job = JobWith();
  const v1::Sites sites = SitesOf(job, 100);
  const JobSimulationResult calm = Simulated(job, sites, {.pools = 4, .rounds = 200});
  for (const uint64_t seed : {1, 2, 3}) {
    const JobSimulationResult result =
        Simulated(job, sites, {.pools = 4, .rounds = 200, .faults = Faults(), .seed = seed});
    EXPECT_EQ(result.coordinator_restarts, 1);
    EXPECT_GT(result.pools_lost, 0);
    EXPECT_GT(result.rank_starts, 4);
    EXPECT_GT(result.seconds, calm.seconds);
    EXPECT_LT(result.goodput_share, calm.goodput_share);
    EXPECT_LT(result.contributed, 1);
    EXPECT_LE(result.committed_tokens, result.tokens);
    EXPECT_EQ(result.commits + result.skipped, calm.commits);
  }
}

TEST(JobSimulationTest, AQuorumGoesOnWithoutASlowPool) {
  const SimulatedFault slow{
      .kind = FaultKind::kSlow, .pool = 1, .lasts_seconds = 1e6, .factor = 10};
  const ResolvedJob lockstep = JobWith(),
                    quorum = JobWith({"pools.min=4", "sync.mode=QUORUM", "sync.quorum.pools=3"});
  const JobSimulationResult waits =
      Simulated(lockstep, SitesOf(lockstep, 100), {.pools = 4, .rounds = 100, .faults = {slow}});
  v1::Sites sites = SitesOf(lockstep, 100);
  const JobSimulationResult goes_on =
      Simulated(quorum, sites, {.pools = 4, .rounds = 100, .faults = {slow}});
  EXPECT_LT(goes_on.seconds, waits.seconds / 2);
  EXPECT_GT(goes_on.utilization, waits.utilization);
}

TEST(JobSimulationTest, OneSeedIsOneRun) {
  const ResolvedJob job = JobWith();
  const v1::Sites sites = SitesOf(job, 100);
  const auto run = [&](uint64_t seed) {
    return Simulated(job, sites, {.pools = 4, .rounds = 60, .faults = Faults(), .seed = seed});
  };
  const JobSimulationResult first = run(7), again = run(7), other = run(8);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first.seconds, again.seconds);
  EXPECT_NE(first.events, other.events);
}

TEST(JobSimulationTest, SaysWhatCannotBe) {
  const ResolvedJob job = JobWith({"pools.min=4", "sync.mode=QUORUM", "sync.quorum.pools=3"});
  const v1::Sites sites = SitesOf(JobWith(), 100);
  EXPECT_THAT(SimulateJob(job, sites, {.pools = 2}).status().message(),
              HasSubstr("more than 2 pools"));
  EXPECT_THAT(
      SimulateJob(JobWith(), sites, {.pools = 2, .faults = {{.pool = 3}}}).status().message(),
      HasSubstr("pool 3 of 2"));
  EXPECT_THAT(FaultOf("fire").status().message(), HasSubstr("expected one of pool-lost"));
}

// Some seconds of one core; its memory grows with the number of pools.
TEST(JobSimulationTest, AThousandPoolsWithFaults) {
  const ResolvedJob job = JobWith();
  std::vector<SimulatedFault> faults;
  for (int i = 1; i <= 20; ++i) {
    const auto kind = static_cast<FaultKind>(i % 3);
    faults.push_back({.kind = kind, .at_seconds = 8.0 + i, .lasts_seconds = 5, .factor = 2});
  }
  const JobSimulationResult result =
      Simulated(job, SitesOf(job, 100), {.pools = 1000, .rounds = 30, .faults = faults, .seed = 1});
  EXPECT_GT(result.pools_lost, 0);
  EXPECT_GT(result.contributed, 0.9);
}

}  // namespace
}  // namespace longhaul::coordinator
