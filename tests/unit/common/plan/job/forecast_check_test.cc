#include "common/plan/job/forecast_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "common/config/load.h"
#include "common/plan/job/job_forecast.h"
#include "common/plan/job/pool_sites.h"
#include "common/plan/job/rank_costs.h"

namespace longhaul::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPlanned[] =
    "{name: planned, model: {transformer: {layers: 4, dim: 256, heads: 4, ff_dim: 768, context: "
    "256}}, data: {text: {path: corpus}}, train: {steps: 50000, batch: 8}, sync: {h: 20}}";

ResolvedJob Planned() { return ResolveJobSpec(ParseJobSpec(kPlanned).value()).value(); }

TEST(SitesOfPoolsTest, TakesTheSpeedOfTheNewestJobThatTells) {
  const ResolvedJob planned = Planned();
  v1::ListPoolsResponse pools;
  const auto add_pool = [&](const std::string& name, v1::PoolState state, v1::Device device) {
    v1::Pool& pool = *pools.add_pools();
    pool.set_name(name);
    pool.set_state(state);
    pool.set_device(device);
    pool.set_ranks(4);
    return &pool;
  };
  add_pool("east", v1::IDLE, v1::CPU)->add_nodes();
  pools.mutable_pools(0)->add_nodes();
  add_pool("west", v1::IDLE, v1::CPU);
  add_pool("gone", v1::LOST, v1::CPU);
  add_pool("gpu", v1::IDLE, v1::CUDA);
  v1::ListJobsResponse jobs;
  // The newest is too short to tell, the next computes in another precision.
  for (const auto& [precision, seconds, tokens] : {std::tuple{"FLOAT32", 1.0, 100},
                                                   {"BFLOAT16", 100.0, 100},
                                                   {"FLOAT32", 100.0, 800000},
                                                   {"FLOAT32", 100.0, 1}}) {
    v1::Job& job = *jobs.add_jobs();
    *job.mutable_spec() =
        ResolveJobSpec(
            ParseJobSpec(kPlanned, {std::string("train.precision=") + precision}).value())
            .value()
            .spec;
    v1::PoolProgress& progress = *job.add_pools();
    progress.set_pool("east");
    progress.set_ranks(4);
    progress.set_compute_seconds(seconds);
    progress.set_tokens(tokens);
  }
  const v1::Sites sites = SitesOfPools(planned, pools, jobs);
  ASSERT_EQ(sites.pools_size(), 2);
  EXPECT_EQ(sites.pools(0).name(), "east");
  EXPECT_EQ(sites.pools(0).nodes(), 2);
  EXPECT_EQ(sites.pools(0).ranks(), 2);
  EXPECT_NEAR(sites.pools(0).teraflops(), 8000 * OperationsPerToken(planned) / 4 / 1e12, 1e-9);
  EXPECT_TRUE(sites.pools(0).speed_measured());
  EXPECT_FALSE(sites.pools(1).speed_measured());
  EXPECT_EQ(sites.pools(1).teraflops(), 0) << "it has not trained";
}

// Two pools as fast as it was forecast.
struct Measured {
  ResolvedJob job = Planned();
  v1::JobForecast forecast;
  v1::ForecastCheck check;
  google::protobuf::RepeatedPtrField<v1::PoolProgress> pools;

  Measured() {
    v1::Sites sites;
    v1::PoolSite& site = *sites.add_pools();
    site.set_copies(2);
    site.set_tokens_per_second(5000);
    forecast = ForecastJob(job, CompleteSites(job, sites).value());
    check = CheckOf(job, forecast);
    const double steps = 100;
    for (int i = 0; i < 2; ++i) {
      v1::PoolProgress& pool = *pools.Add();
      pool.set_tokens(static_cast<int64_t>(steps) * 8 * 256);
      pool.set_inner_step(100);
      pool.set_compute_seconds(steps * At(kComputeTerm));
      pool.set_sync_seconds(steps * At(kCopyingTerm));
      pool.set_exposed_wait_seconds(steps * At(kWaitTerm));
      pool.set_eval_seconds(steps * At(kEvaluationTerm));
    }
  }
  double At(const char* name) const { return TermOf(check, name)->forecast(); }
};

TEST(ForecastCheckTest, KeepsWhatWasForecastForAStep) {
  const Measured m;
  EXPECT_EQ(m.check.pools(), 2);
  EXPECT_NEAR(m.At(kComputeTerm), 8 * 256 / 5000.0, 1e-3);
  EXPECT_EQ(m.At(kUtilizationTerm), m.forecast.utilization());
  EXPECT_EQ(m.At(kJobTerm), m.forecast.seconds());
  EXPECT_NEAR(m.At(kSpeedTerm), 10000, 1);
  EXPECT_FALSE(TermOf(m.check, kJobTerm)->has_measured());
  EXPECT_FALSE(m.check.assumptions().empty()) << "links were assumed";
}

TEST(ForecastCheckTest, NothingIsWrongIfItComesTrue) {
  Measured m;
  AddMeasured(m.job, m.pools, m.check);
  for (const v1::ForecastTerm& term : m.check.terms()) {
    ASSERT_TRUE(term.has_measured()) << term.name();
    EXPECT_NEAR(term.measured(), term.forecast(), 0.02 * term.forecast() + 1e-9) << term.name();
  }
  EXPECT_EQ(m.check.wrong(), "");
  EXPECT_EQ(m.check.finding(), "");
}

TEST(ForecastCheckTest, NamesTheTermThatWasWrong) {
  Measured waits;
  for (v1::PoolProgress& pool : waits.pools) pool.set_exposed_wait_seconds(pool.compute_seconds());
  AddMeasured(waits.job, waits.pools, waits.check);
  EXPECT_EQ(waits.check.wrong(), kWaitTerm);
  EXPECT_THAT(waits.check.finding(), HasSubstr("waiting for commits took 0.41 s of a step"));
  EXPECT_LT(TermOf(waits.check, kUtilizationTerm)->measured(), 0.51);

  Measured slow;
  for (v1::PoolProgress& pool : slow.pools) pool.set_compute_seconds(2 * pool.compute_seconds());
  AddMeasured(slow.job, slow.pools, slow.check);
  EXPECT_EQ(slow.check.wrong(), kComputeTerm);
  EXPECT_THAT(slow.check.finding(), HasSubstr("tokens_per_second of this job"));

  Measured evaluates;
  for (v1::PoolProgress& pool : evaluates.pools) pool.set_eval_seconds(pool.compute_seconds());
  AddMeasured(evaluates.job, evaluates.pools, evaluates.check);
  EXPECT_EQ(evaluates.check.wrong(), kEvaluationTerm);
  EXPECT_GT(TermOf(evaluates.check, kJobTerm)->measured(), evaluates.At(kJobTerm));

  // An earlier version kept no evaluations.
  Measured old;
  for (v1::ForecastTerm& term : *old.check.mutable_terms())
    if (term.name() == kEvaluationTerm) term.set_name("of_old");
  for (v1::PoolProgress& pool : old.pools) pool.set_exposed_wait_seconds(pool.compute_seconds());
  AddMeasured(old.job, old.pools, old.check);
  EXPECT_EQ(old.check.wrong(), kWaitTerm);

  Measured fast;
  for (v1::PoolProgress& pool : fast.pools) pool.set_compute_seconds(pool.compute_seconds() / 2);
  AddMeasured(fast.job, fast.pools, fast.check);
  EXPECT_THAT(fast.check.finding(), HasSubstr("better than assumed"));
}

TEST(ForecastCheckTest, SaysNothingBeforeSyncHSteps) {
  Measured m;
  for (v1::PoolProgress& pool : m.pools) pool.set_tokens(19 * 8 * 256);
  AddMeasured(m.job, m.pools, m.check);
  for (const v1::ForecastTerm& term : m.check.terms()) EXPECT_FALSE(term.has_measured());
  m.pools.Clear();
  AddMeasured(m.job, m.pools, m.check);
  EXPECT_EQ(m.check.wrong(), "");
}

// A client plans on with the sites of PlanJob.
TEST(ForecastCheckTest, CompleteSitesStillSayWhatWasAssumed) {
  const ResolvedJob job = Planned();
  v1::Sites sites;
  sites.add_pools()->set_name("east");
  const v1::Sites complete = CompleteSites(job, sites).value();
  v1::Sites again = CompleteSites(job, complete).value();
  EXPECT_EQ(again.SerializeAsString(), complete.SerializeAsString());
  const auto assumed = [&](const v1::Sites& of) {
    const v1::JobForecast forecast = ForecastJob(job, of);
    std::string all;
    for (const std::string& text : forecast.assumptions()) all += text + "\n";
    return all;
  };
  EXPECT_THAT(assumed(again), HasSubstr("east: a link of 1000 Mbit/s"));
  EXPECT_THAT(assumed(again), HasSubstr("nominal"));
  SetLinks(50, again);
  again.mutable_pools(0)->set_speed_measured(true);
  EXPECT_THAT(assumed(again), Not(HasSubstr("east: a link")));
  EXPECT_THAT(assumed(again), Not(HasSubstr("TFLOP/s")));
}

}  // namespace
}  // namespace longhaul::plan
