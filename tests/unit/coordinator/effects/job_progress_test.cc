#include "coordinator/effects/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace longhaul::coordinator {
namespace {

v1::PoolProgress Told(int64_t step, int64_t tokens, double compute = 0) {
  v1::PoolProgress progress;
  progress.set_inner_step(step);
  progress.set_tokens(tokens);
  progress.set_compute_seconds(compute);
  return progress;
}

TEST(JobProgressTest, TheNewestReportOfAnIncarnationCounts) {
  JobProgress progress(1);
  progress.Report("a", "1", 0, Told(10, 100, 1));
  progress.Report("a", "1", 0, Told(20, 200, 2));
  const PoolHistory& pool = progress.pools().at("a");
  EXPECT_EQ(pool.Total().tokens(), 200);
  EXPECT_EQ(pool.steps(), 20);
}

// Every report of the job, and the store, would have it.
TEST(JobProgressTest, KeepsNothingOfAReportThatItDoesNotKnow) {
  v1::PoolProgress told = Told(10, 100);
  constexpr int kUnknownField = 1000;
  const std::string much(1 << 20, 'x');
  told.GetReflection()->MutableUnknownFields(&told)->AddLengthDelimited(kUnknownField, much);
  v1::InPoolBytes& inner = *told.mutable_forward();
  inner.GetReflection()->MutableUnknownFields(&inner)->AddLengthDelimited(kUnknownField, much);
  JobProgress progress(1);
  progress.Report("a", "1", 0, told);
  EXPECT_LT(progress.pools().at("a").Total().ByteSizeLong(), 1000);
}

TEST(JobProgressTest, CountsContinueWithAnotherIncarnation) {
  JobProgress progress(1);
  v1::PoolProgress first = Told(20, 200, 2), second = Told(25, 50, 1);
  first.set_skipped_steps(3), second.set_skipped_steps(1);
  first.set_inner_state_losses(1), second.set_inner_state_failures(2);
  second.set_inner_state_taken_up_step(18);
  progress.Report("a", "1", 0, first);
  // It began at step 15.
  progress.Report("a", "2", 15, second);
  const PoolHistory& pool = progress.pools().at("a");
  EXPECT_EQ(pool.Total().tokens(), 250);
  EXPECT_EQ(pool.Total().skipped_steps(), 4);
  EXPECT_EQ(pool.Total().inner_state_losses(), 1);
  EXPECT_EQ(pool.Total().inner_state_failures(), 2);
  EXPECT_EQ(pool.Total().inner_state_taken_up_step(), 18);
  EXPECT_DOUBLE_EQ(pool.Total().compute_seconds(), 3);
  EXPECT_EQ(pool.Total().inner_step(), 25);
  EXPECT_EQ(pool.steps(), 30);
}

TEST(JobProgressTest, StepsThatALostPoolHadNotPushedDoNotCount) {
  JobProgress progress(1);
  progress.Report("a", "1", 0, Told(10, 100));
  progress.Contributed({"a", "never reported"});
  progress.Report("a", "1", 0, Told(14, 140));
  EXPECT_EQ(progress.pools().at("a").Total().contributed_tokens(), 100);
  // 40 tokens are lost.
  progress.Report("a", "2", 10, Told(20, 70));
  EXPECT_EQ(progress.pools().at("a").Total().contributed_tokens(), 100);
  progress.Contributed({"a"});
  EXPECT_EQ(progress.pools().at("a").Total().contributed_tokens(), 170);
  EXPECT_EQ(progress.pools().at("a").Total().tokens(), 210);
  EXPECT_EQ(progress.pools().size(), 1);
}

// The coordinator was killed after a commit and before it stored the counts. At the end of a job no
// other commit follows.
TEST(JobProgressTest, AfterARestartTheNextReportHasWhatWasContributed) {
  JobProgress before(1);
  before.Report("a", "1", 0, Told(10, 100));
  before.Contributed({"a"});
  before.Report("b", "1", 0, Told(10, 100));
  store::v1::JobCounters saved;
  before.Save(&saved);
  JobProgress after(1);
  after.Restore(saved);
  after.ContributedAtNextReport({"a", "b", "c"});
  after.Report("a", "1", 0, Told(20, 200));
  // What comes later needs another commit.
  after.Report("a", "1", 0, Told(24, 240));
  EXPECT_EQ(after.pools().at("a").Total().contributed_tokens(), 200);
  after.Report("b", "2", 10, Told(12, 20));
  EXPECT_EQ(after.pools().at("b").Total().contributed_tokens(), 0);
  // Its first report had not been stored.
  after.Report("c", "1", 0, Told(20, 200));
  EXPECT_EQ(after.pools().at("c").Total().contributed_tokens(), 200);
}

TEST(JobProgressTest, CountsContinueWhenAnIncarnationBeginsAgain) {
  JobProgress progress(1);
  progress.Report("a", "1", 0, Told(20, 200));
  // The pool was released and came again. It counts from its new start.
  progress.Report("a", "1", 30, Told(32, 20));
  EXPECT_EQ(progress.pools().at("a").Total().tokens(), 220);
  EXPECT_EQ(progress.pools().at("a").steps(), 22);
}

TEST(JobProgressTest, NoReportMakesASumOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  JobProgress progress(1);
  for (int incarnation = 0; incarnation < 20; ++incarnation) {
    progress.Report("a", std::to_string(incarnation), 0, Told(kMax, kMax));
    EXPECT_EQ(progress.pools().at("a").Total().tokens(), int64_t{1} << 50);
    EXPECT_EQ(progress.pools().at("a").steps(), int64_t{1} << 50);
  }
}

TEST(JobProgressTest, ContinuesAfterARestart) {
  JobProgress before(1);
  before.Report("a", "1", 0, Told(20, 200, 2));
  before.Report("a", "2", 15, Told(25, 50, 1));
  before.Report("b", "1", 7, Told(9, 5));
  store::v1::JobCounters saved;
  before.Save(&saved);
  JobProgress after(1);
  after.Restore(saved);
  ASSERT_EQ(after.pools().size(), 2u);
  EXPECT_EQ(after.pools().at("a").Total().tokens(), 250);
  EXPECT_EQ(after.pools().at("a").Total().pool(), "a");
  EXPECT_EQ(after.pools().at("a").Total().uplink_nmse(), 0);
  EXPECT_EQ(after.pools().at("a").steps(), 30);
  // Incarnation and start are known, so counts continue where they were.
  after.Report("a", "2", 15, Told(26, 60, 1));
  EXPECT_EQ(after.pools().at("a").Total().tokens(), 260);
  EXPECT_EQ(after.pools().at("a").steps(), 31);
  after.Report("b", "2", 9, Told(10, 5));
  EXPECT_EQ(after.pools().at("b").steps(), 3);
}

TEST(JobProgressTest, ContributionsThatWereLeftOutAreCountedAlsoAfterARestart) {
  JobProgress progress(2);
  progress.Report("a", "1", 0, Told(10, 100));
  CommitRecord commit{.round = {1, 3}};
  commit.outer.left_out = {{"a", "1", "its norm"}};
  progress.SetCommit(commit);
  progress.CountLeftOut(commit.outer.left_out);
  progress.CountLeftOut(commit.outer.left_out);
  // No pool says so of itself.
  v1::PoolProgress told = Told(20, 200);
  told.set_left_out_rounds(50);
  progress.Report("a", "1", 0, told);
  EXPECT_EQ(progress.pools().at("a").Total().left_out_rounds(), 2);
  EXPECT_EQ(progress.LeftOutFragments("a"), 1);
  EXPECT_EQ(progress.LeftOutFragments("b"), 0);
  store::v1::JobCounters saved;
  progress.Save(&saved);
  JobProgress restarted(2);
  restarted.Restore(saved);
  restarted.Report("a", "2", 0, Told(5, 50));
  EXPECT_EQ(restarted.pools().at("a").Total().left_out_rounds(), 2);
  commit.outer.left_out.clear();
  progress.SetCommit(commit);
  EXPECT_EQ(progress.LeftOutFragments("a"), 0);
}

TEST(JobProgressTest, SavingChangesNothingAndSavesTheSameTwice) {
  JobProgress progress(1);
  progress.Report("a", "1", 3, Told(20, 200));
  store::v1::JobCounters first, second;
  progress.Save(&first);
  JobProgress restored(1);
  restored.Restore(first);
  restored.Save(&second);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
}

TEST(JobProgressTest, CountsOfEarlierVersionsAreUnderstood) {
  v1::Job saved;
  saved.mutable_wire_bytes()->set_up_total(7);
  v1::PoolProgress& earlier = *saved.add_pools();
  earlier = Told(10, 100);
  earlier.set_pool("incarnation");
  earlier.set_uplink_nmse(3);
  *saved.add_pools() = Told(20, 200);
  saved.mutable_pools(1)->set_pool("a");
  saved.add_pools();  // Half an entry.
  const store::v1::JobCounters counters = ParseCounters(saved.SerializeAsString());
  EXPECT_EQ(counters.wire_bytes().up_total(), 7);
  JobProgress progress(1);
  progress.Restore(counters);
  ASSERT_EQ(progress.pools().size(), 1u);
  EXPECT_EQ(progress.pools().at("a").incarnation, "incarnation");
  EXPECT_EQ(progress.pools().at("a").start_step, 3);
  EXPECT_EQ(progress.pools().at("a").Total().tokens(), 300);
  EXPECT_EQ(progress.pools().at("a").Total().uplink_nmse(), 0);
}

TEST(JobProgressTest, DamagedCountsBeginAtZero) {
  EXPECT_EQ(ParseCounters("\xff").ByteSizeLong(), 0u);
  EXPECT_EQ(ParseCounters("").ByteSizeLong(), 0u);
}

TEST(JobProgressTest, ImpossibleNumbersBecomeZero) {
  JobProgress progress(1);
  progress.Report("a", "1", 0, Told(-5, -7, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(progress.pools().at("a").Total().tokens(), 0);
  EXPECT_EQ(progress.pools().at("a").Total().compute_seconds(), 0);
  EXPECT_EQ(progress.pools().at("a").steps(), 0);
}

TEST(JobProgressTest, LossesFirstLastAndBest) {
  JobProgress progress(1);
  EXPECT_EQ(progress.EvaluationLoss().evaluations(), 0);
  progress.AddEvaluation({.step = 30, .loss = 2});
  progress.AddEvaluation({.step = 10, .loss = 3});
  progress.AddEvaluation({.step = 20, .loss = 1});
  progress.AddEvaluation({.step = 30, .loss = 1.5, .final = true});
  // A repeated evaluation.
  progress.AddEvaluation({.step = 20, .loss = 1});
  const v1::EvalLoss loss = progress.EvaluationLoss();
  EXPECT_DOUBLE_EQ(loss.first(), 3);
  EXPECT_DOUBLE_EQ(loss.last(), 1.5);
  EXPECT_DOUBLE_EQ(loss.best(), 1);
  EXPECT_EQ(loss.last_step(), 30);
  EXPECT_EQ(loss.evaluations(), 4);
}

TEST(JobProgressTest, AVersionWasEvaluatedOnceByAllAndOnceByEachPool) {
  JobProgress progress(2);
  EXPECT_EQ(progress.WholeVersion(), -1);
  progress.SetCommit({.round = {0, 3}});
  EXPECT_EQ(progress.WholeVersion(), -1);
  progress.SetCommit({.round = {1, 2}});
  EXPECT_EQ(progress.WholeVersion(), 2);
  progress.AddEvaluation({.step = 20, .version = 2, .loss = 1});
  progress.AddEvaluation({.step = 30, .version = 3, .loss = 1, .final = true});
  progress.AddEvaluation({.step = 20, .version = 2, .loss = 1, .pool = "a"});
  EXPECT_TRUE(progress.WasEvaluated("", 2));
  EXPECT_FALSE(progress.WasEvaluated("", 1)) << "of the pool whose turn it was before";
  EXPECT_FALSE(progress.WasEvaluated("", 3)) << "as the outer parameters of a cycle";
  EXPECT_TRUE(progress.WasEvaluated("a", 1)) << "a pool reports its own in order";
  EXPECT_TRUE(progress.WasEvaluated("a", 2));
  EXPECT_FALSE(progress.WasEvaluated("a", 3));
  EXPECT_FALSE(progress.WasEvaluated("b", 1));
}

TEST(JobProgressTest, OnlyThePoolThatWasAskedEvaluatesAVersion) {
  JobProgress progress(2);
  for (const int fragment : {0, 1}) progress.SetCommit({.round = {fragment, 0}});
  progress.SetCommit({.round = {0, 1}});
  progress.SetCommit({.round = {1, 1}, .evaluator = "a"});
  EXPECT_TRUE(progress.MayEvaluate("a", 1));
  EXPECT_FALSE(progress.MayEvaluate("b", 1));
  progress.SetCommit({.round = {0, 2}});
  progress.SetCommit({.round = {1, 2}});
  EXPECT_TRUE(progress.MayEvaluate("a", 2)) << "it began again, and has no older version";
  EXPECT_FALSE(progress.MayEvaluate("b", 2));
  progress.SetCommit({.round = {0, 3}});
  progress.SetCommit({.round = {1, 3}, .evaluator = "b"});
  EXPECT_FALSE(progress.MayEvaluate("a", 3)) << "the other pool's turn";
  progress.Answered("a", 2);
  EXPECT_FALSE(progress.MayEvaluate("a", 4)) << "one report for each time that it is asked";
  EXPECT_TRUE(progress.MayEvaluate("b", 3));
}

// It is not stored. Another pool, which still owes a report on an earlier version, must not take
// its place.
TEST(JobProgressTest, AVersionIsEvaluatedAlsoIfItsLossIsNotANumber) {
  JobProgress progress(1);
  for (const int64_t version : {0, 1, 2})
    progress.SetCommit({.round = {.version = version}, .evaluator = version == 1 ? "b" : "c"});
  EXPECT_FALSE(progress.WasEvaluated("", 2));
  progress.Answered("c", 2);
  EXPECT_TRUE(progress.MayEvaluate("b", 2));
  EXPECT_TRUE(progress.WasEvaluated("", 2)) << "so its report changes nothing";
  EXPECT_FALSE(progress.WasEvaluated("", 1));
}

TEST(JobProgressTest, WhoWasAskedBeforeARestartIsNotKnown) {
  JobProgress progress(2);
  progress.SetCommit({.round = {0, 4}});
  progress.SetCommit({.round = {1, 3}, .evaluator = "a"});
  EXPECT_TRUE(progress.MayEvaluate("b", 2));
  EXPECT_FALSE(progress.MayEvaluate("b", 3)) << "the newest commit tells it";
  EXPECT_TRUE(progress.MayEvaluate("a", 3));
  EXPECT_FALSE(progress.MayEvaluate("b", 5));
}

TEST(JobProgressTest, APoolsDataIsComparedWithThatOfItsStartBeforeAlsoAfterARestart) {
  v1::DataSummary two, other, fewer;
  two.add_tokens(10);
  two.add_samples(7);
  other = two;
  other.set_samples(0, 8);
  fewer.add_tokens(9);
  JobProgress progress(1);
  EXPECT_EQ(progress.BeginWithData("a", two), "");
  two.set_features("host, 9 GB/s");
  EXPECT_EQ(progress.BeginWithData("a", two), "") << "what was measured may differ";
  EXPECT_EQ(progress.pools().at("a").Total().data().features(), "host, 9 GB/s");
  EXPECT_EQ(progress.DataOf("a").features(), "") << "the next ranks measure, too";
  EXPECT_EQ(progress.BeginWithData("b", other), "") << "another pool";
  EXPECT_EQ(progress.BeginWithData("a", {}), "") << "a worker of an earlier version";
  v1::PoolProgress told = Told(1, 1, 1);
  *told.mutable_data() = fewer;
  told.set_data_change("made up");
  progress.Report("a", "1", 0, told);
  store::v1::JobCounters stored;
  progress.Save(&stored);
  JobProgress restored(1);
  restored.Restore(stored);
  EXPECT_EQ(restored.DataOf("a").samples(0), 7u);
  EXPECT_EQ(restored.pools().at("a").Total().data_change(), "");
  EXPECT_EQ(restored.BeginWithData("a", other),
            "source 0 has as many tokens as before (10), but others, or in another order");
  EXPECT_EQ(restored.BeginWithData("a", fewer), "source 0 had 10 tokens and has 9");
  EXPECT_EQ(restored.BeginWithData("a", fewer), "") << "it is known by now";
  EXPECT_EQ(restored.pools().at("a").Total().data_change(), "source 0 had 10 tokens and has 9");
}

v1::DataSummary Data(int64_t tokens, const std::vector<std::string>& kinds) {
  v1::DataSummary data;
  data.add_tokens(tokens);
  for (const std::string& kind : kinds) {
    v1::DataWarning& warning = *data.add_warnings();
    warning.set_kind(kind);
    warning.set_message(kind + " of " + std::to_string(tokens));
  }
  return data;
}

std::vector<std::string> NewKinds(const JobProgress& progress, const v1::DataSummary& data) {
  std::vector<std::string> kinds;
  for (const v1::DataWarning& warning : progress.NewWarnings("a", data))
    kinds.push_back(warning.kind());
  return kinds;
}

TEST(JobProgressTest, EachKindOfWarningAboutAPoolsDataIsNewOnce) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  JobProgress progress(1);
  EXPECT_THAT(NewKinds(progress, Data(10, {"X", "X", "Y"})), ElementsAre("X", "Y"));
  progress.BeginWithData("a", Data(10, {"X"}));
  // Another rank, or a restart.
  EXPECT_THAT(NewKinds(progress, Data(10, {"X", "Y"})), ElementsAre("Y"));
  progress.BeginWithData("a", Data(10, {"Y"}));
  EXPECT_THAT(NewKinds(progress, Data(10, {"X", "Y"})), IsEmpty());
  store::v1::JobCounters stored;
  progress.Save(&stored);
  JobProgress restored(1);
  restored.Restore(stored);
  EXPECT_THAT(NewKinds(restored, Data(10, {"X", "Y"})), IsEmpty());
  EXPECT_EQ(restored.pools().at("a").Total().data().warnings_size(), 2);
  EXPECT_EQ(restored.DataOf("a").warnings_size(), 0) << "pools need not hear them";
  // Other data.
  EXPECT_THAT(NewKinds(restored, Data(11, {"X"})), ElementsAre("X"));
  v1::DataSummary none;
  *none.mutable_warnings() = Data(10, {"Z"}).warnings();
  EXPECT_THAT(NewKinds(restored, none), IsEmpty()) << "nothing would keep that it was told";
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) many.push_back(std::to_string(i));
  EXPECT_THAT(NewKinds(JobProgress(1), Data(10, many)), testing::SizeIs(16));
}

TEST(JobProgressTest, TheFirstLossOfAStepStays) {
  JobProgress progress(1);
  progress.AddEvaluation({.step = 20, .version = 2, .loss = 1, .metrics = {{"loss", 1}}});
  progress.AddEvaluation({.step = 20, .version = 5, .loss = 9, .metrics = {{"loss", 9}}});
  EXPECT_EQ(progress.EvaluationLoss().last(), 1);
  EXPECT_EQ(progress.EvaluationLoss().metrics(0).value(), 1);
  EXPECT_TRUE(progress.WasEvaluated("", 2));
}

// A page shows it every two seconds, and a job may have any number of steps.
TEST(JobProgressTest, EvaluationsOfALongJobAreThinned) {
  JobProgress progress(1);
  v1::JobDetail few;
  for (const int64_t step : {20, 10}) progress.AddEvaluation({.step = step, .loss = 1});
  progress.AddEvaluation({.step = 20, .loss = 0.5, .final = true});
  EXPECT_TRUE(progress.HasFinalEvaluation());
  progress.FillEvaluations(&few);
  ASSERT_EQ(few.evaluations_size(), 3);
  EXPECT_EQ(few.evaluations(0).step(), 10);
  EXPECT_EQ(few.evaluations(2).loss(), 0.5);
  for (int64_t step = 21; step <= 10'000; ++step) {
    progress.AddEvaluation({.step = step, .loss = 1});
    progress.AddEvaluation({.step = step, .loss = 2, .pool = "a"});
  }
  v1::JobDetail many;
  progress.FillEvaluations(&many);
  EXPECT_LE(many.evaluations_size(), 512);
  EXPECT_GE(many.evaluations_size(), 256);
  EXPECT_EQ(many.evaluations().rbegin()->step(), 10'000);
  ASSERT_EQ(many.pool_evaluations_size(), 1);
  EXPECT_EQ(many.pool_evaluations(0).pool(), "a");
  EXPECT_LE(many.pool_evaluations(0).points_size(), 512);
}

EvaluationRecord OfSite(const std::string& site, int64_t step, double loss, int64_t nodes) {
  return {.step = step,
          .version = step / 10,
          .loss = loss,
          .tokens = nodes,
          .metrics = {{"loss", loss},
                      {"accuracy", 1 - loss / 8},
                      {"test_examples", 10},
                      {"test_accuracy", loss / 8}},
          .site = site};
}

TEST(JobProgressTest, EvaluationsOfAllSitesAreOne) {
  JobProgress progress(1);
  progress.AddEvaluation(OfSite("a", 10, 2, 100));
  v1::EvalLoss loss = progress.EvaluationLoss();
  EXPECT_EQ(loss.last(), 2);
  EXPECT_EQ(loss.pools(), 1);
  EXPECT_TRUE(loss.worst_pool().empty()) << "one pool is not the worst of several";
  progress.AddEvaluation(OfSite("b", 10, 6, 300));
  // What is repeated changes nothing.
  progress.AddEvaluation(OfSite("b", 10, 9, 300));
  loss = progress.EvaluationLoss();
  EXPECT_EQ(loss.evaluations(), 1);
  EXPECT_EQ(loss.last(), 5);
  EXPECT_EQ(loss.first(), 5);
  EXPECT_EQ(loss.pools(), 2);
  const auto values = [](const auto& metrics) {
    std::map<std::string, double> by_name;
    for (const v1::Metric& metric : metrics) by_name[metric.name()] = metric.value();
    return by_name;
  };
  EXPECT_EQ(values(loss.metrics()),
            (std::map<std::string, double>{
                {"loss", 5}, {"accuracy", 0.375}, {"test_examples", 20}, {"test_accuracy", 0.5}}));
  EXPECT_EQ(
      values(loss.worst_pool()),
      (std::map<std::string, double>{{"loss", 6}, {"accuracy", 0.25}, {"test_accuracy", 0.25}}));
  EXPECT_EQ(
      values(loss.mean_of_pools()),
      (std::map<std::string, double>{{"loss", 4}, {"accuracy", 0.5}, {"test_accuracy", 0.5}}));
  EXPECT_EQ(progress.SiteEvaluation("a")->loss, 2);
  EXPECT_EQ(progress.SiteEvaluation("c"), nullptr);
  EXPECT_EQ(progress.PoolEvaluation("a"), nullptr);
  EXPECT_TRUE(progress.WasEvaluatedAt("a", 1));
  EXPECT_FALSE(progress.WasEvaluatedAt("a", 2));
  EXPECT_FALSE(progress.WasEvaluatedAt("c", 1));
  // Many later, one is not combined any more, and changes nothing.
  for (int64_t step = 20; step < 500; step += 10) progress.AddEvaluation(OfSite("a", step, 3, 100));
  progress.AddEvaluation(OfSite("c", 10, 9, 300));
  EXPECT_EQ(progress.EvaluationLoss().first(), 5);
  EXPECT_LE(progress.sites().size(), 16u);
}

TEST(JobProgressTest, MetricsAreThoseOfTheLastEvaluationAndOfEachPoolsNewest) {
  JobProgress progress(1);
  progress.AddEvaluation({.step = 30, .loss = 2, .metrics = {{"loss", 2}, {"perplexity", 7.4}}});
  progress.AddEvaluation({.step = 10, .loss = 3, .metrics = {{"loss", 3}}});
  progress.AddEvaluation({.step = 20, .loss = 1, .pool = "a", .metrics = {{"loss", 1}}});
  progress.AddEvaluation({.step = 10, .loss = 4, .pool = "a", .metrics = {{"loss", 4}}});
  EXPECT_EQ(progress.EvaluationLoss().evaluations(), 2);
  EXPECT_EQ(progress.EvaluationLoss().metrics(1).name(), "perplexity");
  EXPECT_EQ(progress.PoolEvaluation("a")->loss, 1);
  EXPECT_EQ(progress.PoolEvaluation("b"), nullptr);
}

}  // namespace
}  // namespace longhaul::coordinator
