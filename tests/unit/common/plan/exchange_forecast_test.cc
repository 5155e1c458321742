#include "common/plan/exchange_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace longhaul::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Case {
  int fragments = 1;
  int64_t h = 10, tau = 0, steps = 1000;
  int64_t elements = 1000;
  double bytes = 500;
};

ExchangeSetting SettingOf(const Case& c) {
  ExchangeSetting setting{.steps = c.steps,
                          .final_round = false,
                          .hub_up = kInfinite,
                          .hub_down = kInfinite,
                          .apply = kInfinite};
  for (const FragmentSchedule& schedule :
       MakeSchedule({.fragments = c.fragments, .h = c.h, .tau = c.tau, .steps = c.steps})) {
    setting.fragments.push_back({c.elements, c.bytes, c.bytes, schedule});
  }
  return setting;
}

PoolRates Pool(double step, double bytes_per_second, double round_trip = 0) {
  return {.step_seconds = step,
          .link = {bytes_per_second, bytes_per_second, round_trip},
          .code = kInfinite,
          .decode = kInfinite,
          .copy = kInfinite};
}

TEST(ExchangeForecastTest, WaitsForBothWaysWithoutOverlap) {
  // Ten steps of 1 s, then 2 s up, 2 s down.
  const ExchangeForecast forecast = ForecastExchange(SettingOf({}), {Pool(1, 250), Pool(1, 250)});
  EXPECT_DOUBLE_EQ(forecast.period_seconds, 14);
  for (const TimeShares& pool : forecast.pools) {
    EXPECT_NEAR(pool.utilization(), 10.0 / 14, 1e-12);
    EXPECT_NEAR(pool.uplink, pool.downlink, 1e-9);
    EXPECT_EQ(pool.others, 0);
  }
  EXPECT_NEAR(forecast.seconds, 1400, 1e-6);
}

TEST(ExchangeForecastTest, HidesWhatFitsIntoTheOverlap) {
  Case hidden{.tau = 4};
  EXPECT_NEAR(ForecastExchange(SettingOf(hidden), {Pool(1, 250)}).pools[0].utilization(), 1, 1e-12);
  hidden.tau = 3;
  EXPECT_NEAR(ForecastExchange(SettingOf(hidden), {Pool(1, 250)}).pools[0].utilization(), 10.0 / 11,
              1e-12);
}

TEST(ExchangeForecastTest, CountsRoundTripsAndTheHub) {
  // Half a round trip up; the commit, the request and its first byte after it.
  EXPECT_NEAR(ForecastExchange(SettingOf({}), {Pool(1, 250, 0.5)}).period_seconds, 15, 1e-9);
  ExchangeSetting shared = SettingOf({});
  shared.hub_down = 250;  // Two pools share it.
  EXPECT_NEAR(ForecastExchange(shared, {Pool(1, 250), Pool(1, 250)}).period_seconds, 16, 1e-9);
}

TEST(ExchangeForecastTest, FasterPoolsWaitForSlowerOnesInLockstep) {
  const ExchangeForecast forecast =
      ForecastExchange(SettingOf({.tau = 4, .steps = 100000}), {Pool(1, 1e9), Pool(2, 1e9)});
  EXPECT_NEAR(forecast.pools[0].utilization(), 0.5, 1e-4);
  EXPECT_NEAR(forecast.pools[0].others, forecast.pools[0].wait(), 0.1);
  EXPECT_NEAR(forecast.pools[1].utilization(), 1, 1e-4);
}

TEST(ExchangeForecastTest, AQuorumLetsTheSlowerPoolLeaveStepsOut) {
  ExchangeSetting setting = SettingOf({.h = 100, .tau = 10});
  setting.quorum = 1;
  const ExchangeForecast forecast = ForecastExchange(setting, {Pool(1, 1e9), Pool(4, 1e9)});
  EXPECT_GT(forecast.pools[0].utilization(), 0.9);
  EXPECT_NEAR(forecast.left_out[1], 0.75, 0.05);
  EXPECT_EQ(forecast.left_out[0], 0);
}

TEST(ExchangeForecastTest, MoreBandwidthIsNeverWorseAndTheSteadyStateFitsTheLink) {
  for (const int64_t tau : {0, 2, 9}) {
    for (const int fragments : {1, 3, 8}) {
      const Case c{.fragments = fragments, .tau = tau, .steps = 100000};
      double before = 0;
      for (double rate = 1; rate < 1e6; rate *= 1.3) {
        const double utilization =
            ForecastExchange(SettingOf(c), {Pool(1, rate)}).pools[0].utilization();
        EXPECT_GE(utilization, before - 1e-9) << rate;
        // All fragments pass once each way in a period.
        EXPECT_GE(rate, 0.995 * utilization * fragments * c.bytes / static_cast<double>(c.h));
        before = utilization;
      }
      if (tau > 0) EXPECT_NEAR(before, 1, 1e-3);
    }
  }
}

TEST(ExchangeForecastTest, EvaluationsStopTheTrainingOfThePoolThatMakesThem) {
  // 4 s, at the end of each round of ten steps.
  PoolRates pool = Pool(1, kInfinite);
  pool.evaluation_seconds = 4;
  ExchangeSetting setting = SettingOf({});
  setting.pool_evaluation_rounds = 1;
  ExchangeForecast forecast = ForecastExchange(setting, {pool, pool});
  EXPECT_NEAR(forecast.period_seconds, 14, 1e-9);
  // Not at the last step.
  EXPECT_NEAR(forecast.seconds, 1000 + 4 * 99, 4 + 1e-6);
  EXPECT_NEAR(forecast.pools[0].evaluation, 4 * 99, 4 + 1e-6);
  EXPECT_EQ(forecast.pools[0].utilization(), 1) << "an evaluation is no wait";
  // Every fifth round: as much in all.
  setting.pool_evaluation_rounds = 5;
  EXPECT_NEAR(ForecastExchange(setting, {pool}).seconds, 1000 + 4 * 20, 8);
  setting.pool_evaluation_rounds = 101;
  EXPECT_NEAR(ForecastExchange(setting, {pool}).seconds, 1000, 1e-6) << "more than the job has";
  // Of the outer parameters: in turns. Without overlap the other waits.
  setting.pool_evaluation_rounds = 0;
  setting.outer_evaluation_rounds = 1;
  forecast = ForecastExchange(setting, {pool, pool});
  EXPECT_NEAR(forecast.period_seconds, 14, 1e-9);
  EXPECT_NEAR(forecast.pools[0].evaluation, forecast.pools[1].evaluation, 8);
  EXPECT_NEAR(forecast.pools[0].evaluation + forecast.pools[1].evaluation, 4 * 99, 8);
  EXPECT_GT(forecast.pools[0].others, 0);
}

TEST(ExchangeForecastTest, AnEvaluationHidesATransfer) {
  // 2 s up, 2 s down; the last of two fragments merges at step 10, the first is under way then.
  PoolRates pool = Pool(1, 250);
  ExchangeSetting setting = SettingOf({.fragments = 2, .tau = 3});
  const double without = ForecastExchange(setting, {pool}).period_seconds;
  pool.evaluation_seconds = 3;
  setting.pool_evaluation_rounds = 1;
  const double with = ForecastExchange(setting, {pool}).period_seconds;
  EXPECT_GT(with, without);
  EXPECT_LT(with, without + 3 + 1e-9);
}

TEST(ExchangeForecastTest, AJobShorterThanAPeriodComputesAllItsSteps) {
  ExchangeSetting setting = SettingOf({.h = 100, .steps = 7});
  EXPECT_NEAR(ForecastExchange(setting, {Pool(2, 100)}).seconds, 14, 1e-9);
  setting.final_round = true;
  // 500 bytes each way.
  EXPECT_NEAR(ForecastExchange(setting, {Pool(2, 100)}).seconds, 14 + 10, 1e-9);
}

TEST(ExchangeForecastTest, CopiesAndTheCoordinatorTakeTheirTime) {
  ExchangeSetting setting = SettingOf({});
  setting.apply = 1000;
  setting.apply_seconds = 0.5;
  PoolRates pool = Pool(1, kInfinite);
  pool.copy = 2000;
  const ExchangeForecast forecast = ForecastExchange(setting, {pool, pool});
  // Ten steps; a copy before and after; two contributions of a second and the round itself.
  EXPECT_NEAR(forecast.period_seconds, 10 + 2 * 0.5 + 2.5, 1e-9);
  EXPECT_NEAR(forecast.pools[0].coordinator / forecast.pools[0].all(), 2.5 / 13.5, 1e-9);
}

}  // namespace
}  // namespace longhaul::plan
