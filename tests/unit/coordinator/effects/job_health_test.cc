#include "coordinator/effects/job_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace longhaul::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class JobHealthTest : public testing::Test {
 protected:
  JobHealthTest() {
    facts_.running = true;
    facts_.guess = std::log(256);
    facts_.fragments = 2;
    for (const char* pool : {"a", "b"}) {
      facts_.pools.push_back(
          {.name = pool, .trains = true, .train_loss = 3, .steps = 10, .contributed_tokens = 10});
    }
    facts_.utilization = 0.9;
    facts_.cosine = 0.5;
    facts_.parameter_norms = {{0, 5.0}};
  }
  std::vector<v1::JobEvent> Look(int seconds) {
    return health_.Observe(facts_, absl::UnixEpoch() + absl::Seconds(seconds));
  }
  // "CODE pool" of each finding.
  std::vector<std::string> Found() const {
    std::vector<std::string> found;
    const v1::JobHealth report = health_.Report();
    for (const v1::HealthFinding& finding : report.findings())
      found.push_back(finding.pool().empty() ? finding.code()
                                             : finding.code() + " " + finding.pool());
    return found;
  }
  v1::JobHealth::Level Level() const { return health_.Report().level(); }

  HealthFacts facts_;
  JobHealth health_;
};

TEST_F(JobHealthTest, IsNotKnownBeforeTheJobRuns) {
  facts_.running = false;
  EXPECT_THAT(Look(0), IsEmpty());
  EXPECT_EQ(Level(), v1::JobHealth::LEVEL_UNSPECIFIED);
  facts_.running = true;
  EXPECT_THAT(Look(1), IsEmpty());
  EXPECT_EQ(Level(), v1::JobHealth::HEALTHY);
}

TEST_F(JobHealthTest, ADivergedJobIsFailingAndStaysSoAtItsEnd) {
  facts_.divergence = "the loss is 84";
  EXPECT_EQ(Look(5).size(), 1u);
  EXPECT_EQ(Level(), v1::JobHealth::WARNING);
  facts_.divergence_lasts = true;
  EXPECT_THAT(Look(6), IsEmpty());
  const v1::JobHealth report = health_.Report();
  EXPECT_EQ(report.level(), v1::JobHealth::FAILING);
  EXPECT_EQ(report.findings(0).message(), "the loss is 84");
  EXPECT_THAT(report.findings(0).hint(), HasSubstr("lower learning rate"));
  EXPECT_EQ(report.findings(0).since().seconds(), 5);
  // Paused by its guard.
  facts_.running = false;
  EXPECT_THAT(Look(7), IsEmpty());
  EXPECT_THAT(Found(), ElementsAre("DIVERGED"));
  facts_.running = true;
  facts_.divergence.clear();
  const auto events = Look(8);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind(), v1::FINDING_ENDED);
  EXPECT_EQ(events[0].code(), "DIVERGED");
  EXPECT_EQ(Level(), v1::JobHealth::HEALTHY);
}

TEST_F(JobHealthTest, ASingleBadEvaluationAtTheEndIsFailing) {
  facts_.divergence = "the loss is 84";
  facts_.finishing = true;
  Look(0);
  EXPECT_EQ(Level(), v1::JobHealth::FAILING);
}

TEST_F(JobHealthTest, ALossOfOnePoolIsAWarningAndOfAllAFailure) {
  facts_.pools[0].train_loss = 42.6;
  EXPECT_THAT(Look(0), IsEmpty());
  EXPECT_THAT(Look(9), IsEmpty());
  const auto events = Look(10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind(), v1::FINDING_BEGAN);
  EXPECT_EQ(events[0].severity(), v1::WARNING);
  EXPECT_EQ(events[0].pool(), "a");
  EXPECT_EQ(Level(), v1::JobHealth::WARNING);
  facts_.pools[1].train_loss = std::nan("");
  Look(11);
  EXPECT_THAT(Found(), ElementsAre("TRAIN_LOSS_DIVERGED a", "TRAIN_LOSS_DIVERGED b"));
  EXPECT_EQ(Level(), v1::JobHealth::FAILING);
  for (HealthFacts::Pool& pool : facts_.pools) pool.train_loss = 3;
  EXPECT_EQ(Look(12).size(), 2u);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, ALossThatRoseForAWhile) {
  facts_.evaluation.set_evaluations(3);
  facts_.evaluation.set_best(2);
  facts_.evaluation.set_last(2.5);
  Look(0);
  EXPECT_THAT(Found(), IsEmpty());
  Look(60);
  EXPECT_THAT(Found(), ElementsAre("EVAL_LOSS_ROSE"));
  facts_.evaluation.set_last(2.1);
  Look(61);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, APoolThatContributesNothingWhileOthersDo) {
  for (int second = 0; second < 40; ++second) {
    facts_.rounds = second;
    facts_.pools[0].contributed_tokens += 10;
    Look(second);
    if (second < 25) {
      EXPECT_THAT(Found(), IsEmpty());
    }
  }
  EXPECT_THAT(Found(), ElementsAre("POOL_CONTRIBUTES_NOTHING b"));
  facts_.pools[1].contributed_tokens += 10;
  Look(41);
  EXPECT_THAT(Found(), IsEmpty());
  // It is away.
  facts_.pools[1].trains = false;
  for (int second = 42; second < 100; ++second) {
    facts_.rounds = second;
    facts_.pools[0].contributed_tokens += 10;
    Look(second);
  }
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, APoolThatNeverContributedIsNamedAtTheEnd) {
  facts_.finishing = true;
  facts_.rounds = 6;
  facts_.pools[1].contributed_tokens = 0;
  Look(0);
  EXPECT_THAT(Found(), ElementsAre("POOL_CONTRIBUTES_NOTHING b"));
}

TEST_F(JobHealthTest, SkippedStepsCountForAMinuteOrIfTheyAreMany) {
  facts_.pools[0].steps = 10000;
  facts_.pools[0].skipped_steps = 3;
  Look(100);
  EXPECT_THAT(Found(), ElementsAre("STEPS_SKIPPED a"));
  Look(160);
  EXPECT_THAT(Found(), IsEmpty());
  facts_.pools[0].skipped_steps = 300;
  Look(161);
  Look(1000);
  EXPECT_THAT(Found(), ElementsAre("STEPS_SKIPPED a"));
}

TEST_F(JobHealthTest, APoolWhoseContributionsAreLeftOutIsAWarningAsLongAsTheyAre) {
  facts_.pools[1].left_out_fragments = 1;
  // That has an event already.
  EXPECT_THAT(Look(0), IsEmpty());
  EXPECT_THAT(Found(), ElementsAre("POOL_LEFT_OUT b"));
  EXPECT_EQ(Level(), v1::JobHealth::WARNING);
  facts_.pools[1].left_out_fragments = 0;
  EXPECT_EQ(Look(1).size(), 1u) << "that it is over is told";
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, PoolsThatAreSetAsideFailTheJobIfNoneTrains) {
  facts_.set_aside["b"] = {"its values are infinite", 1};
  facts_.pools[1].trains = false;
  // That has an event already.
  EXPECT_THAT(Look(0), IsEmpty());
  EXPECT_THAT(Found(), ElementsAre("POOL_SET_ASIDE b"));
  EXPECT_EQ(Level(), v1::JobHealth::WARNING);
  facts_.pools[0].trains = false;
  Look(1);
  EXPECT_EQ(Level(), v1::JobHealth::WARNING);
  facts_.set_aside["b"].second = 2;
  Look(2);
  EXPECT_EQ(Level(), v1::JobHealth::FAILING);
}

TEST_F(JobHealthTest, WhatLastsIsFoundAfterAWhile) {
  facts_.cosine = 0.01;
  facts_.utilization = 0.2;
  facts_.norm = "it is large";
  // The alert has an event already.
  EXPECT_THAT(Look(0), IsEmpty());
  EXPECT_THAT(Found(), ElementsAre("OUTER_GRADIENT_LARGE"));
  Look(600);
  EXPECT_THAT(Found(), ElementsAre("OUTER_GRADIENT_LARGE", "POOLS_DISAGREE", "UTILIZATION_LOW"));
  facts_.norm.clear();
  facts_.cosine.reset();
  facts_.utilization = 0.9;
  Look(601);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, SitesThatPullApartDisagreeOnlyWhereSharedParametersLackMuch) {
  facts_.cosine = -0.6;
  facts_.evaluation.set_first(3);
  const auto losses = [this](double outer_of_a, double own_of_a, double outer_of_b,
                             double own_of_b) {
    facts_.pools[0].outer_loss = outer_of_a;
    facts_.pools[0].own_loss = own_of_a;
    facts_.pools[1].outer_loss = outer_of_b;
    facts_.pools[1].own_loss = own_of_b;
  };
  // Each evaluates the shared parameters on its own data: a compromise is no fault.
  losses(1.2, 1, 0.05, 0.03);
  Look(0);
  Look(3600);
  EXPECT_THAT(Found(), IsEmpty());
  EXPECT_EQ(Level(), v1::JobHealth::HEALTHY);
  // As if the classes of one had another meaning. One evaluation may be an accident.
  losses(1.2, 1, 1.9, 1);
  Look(3601);
  losses(1.2, 1, 1.1, 1);
  Look(3700);
  losses(1.2, 1, 1.9, 1);
  Look(3701);
  Look(4300);
  EXPECT_THAT(Found(), IsEmpty());
  Look(4301);
  ASSERT_THAT(Found(), ElementsAre("POOLS_DISAGREE"));
  EXPECT_EQ(health_.Report().findings(0).message(),
            "the mean cosine of the pools' outer gradients is -0.60; at b the loss of the shared "
            "parameters is 1.9, of its own 1");
  // With a small learning rate the own ones stay near.
  losses(1.9, 1.85, 1.9, 1.85);
  facts_.finishing = true;
  Look(4302);
  EXPECT_THAT(Found(), ElementsAre("POOLS_DISAGREE"));
  facts_.finishing = false;
  facts_.cosine = 0.3;
  Look(4303);
  EXPECT_THAT(Found(), IsEmpty());
}

TEST_F(JobHealthTest, SitesThatPullApartDisagreeWhereTheirLossesAreUnknown) {
  facts_.cosine = -0.6;
  facts_.pools[0].outer_loss = 1;
  facts_.pools[1].own_loss = 1;
  Look(0);
  Look(600);
  EXPECT_THAT(Found(), ElementsAre("POOLS_DISAGREE"));
}

TEST_F(JobHealthTest, OuterParametersThatDoubleWithinAnHour) {
  for (int minute = 0; minute <= 60; minute += 5) {
    facts_.parameter_norms[0] = 5 + minute / 10.0;
    Look(60 * minute);
    EXPECT_EQ(Found().size(), 5 + minute / 10.0 > 10 && minute == 60 ? 1u : 0u) << minute;
  }
  facts_.parameter_norms[0] = 11;
  Look(61 * 60);
  EXPECT_THAT(Found(), ElementsAre("PARAMETERS_GROW"));
}

}  // namespace
}  // namespace longhaul::coordinator
