#include "coordinator/service/job_report.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/config/job_spec.h"

namespace longhaul::coordinator {
namespace {

class JobReportTest : public ::testing::Test {
 protected:
  JobReportTest() {
    v1::JobSpec spec;
    spec.set_name("job");
    spec.mutable_model()->mutable_synthetic()->set_units(2);
    spec.mutable_model()->mutable_synthetic()->set_elements(100);
    spec.mutable_train()->set_steps(60);
    resolved_ = *ResolveJobSpec(spec);
    JobRecord record{.id = "id",
                     .name = "job",
                     .state = JobState::kRunning,
                     .created = start_,
                     .started = start_};
    record.spec = resolved_.spec.SerializeAsString();
    job_ = *MakeLiveJob(record, resolved_);
    view_->state = JobState::kRunning;
    view_->fragments.resize(2);
  }
  void Told(const std::string& pool, int ordinal, bool live, int64_t step, double compute,
            double wait) {
    v1::PoolProgress progress;
    progress.set_inner_step(step);
    progress.set_tokens(10 * step);
    progress.set_compute_seconds(compute);
    progress.set_exposed_wait_seconds(wait);
    job_->progress.Report(pool, "1", 0, progress);
    view_->participants.push_back(
        {.pool = pool, .ordinal = ordinal, .start_step = 0, .live = live});
  }
  v1::Job Report() { return ReportLive(*job_, view_, start_ + absl::Seconds(90)); }

  const absl::Time start_ = absl::FromUnixSeconds(1000);
  ResolvedJob resolved_;
  std::shared_ptr<LiveJob> job_;
  std::optional<JobView> view_ = JobView();
};

TEST_F(JobReportTest, SumsAndMeansOverPools) {
  Told("a", 0, true, 20, 3, 1);
  Told("b", 1, true, 10, 1, 1);
  Told("c", 2, false, 5, 0, 0);
  const v1::Job report = Report();
  EXPECT_EQ(report.tokens(), 350);
  EXPECT_EQ(report.inner_step(), 10);  // Of the slowest that is live.
  EXPECT_EQ(report.data_parallel_bytes(), 4 * 200 * 35);
  EXPECT_DOUBLE_EQ(report.utilization(), (0.75 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(report.compute_seconds(), 4.0 / 3);
  ASSERT_EQ(report.pools_size(), 3);
  EXPECT_TRUE(report.pools(0).live());
  EXPECT_FALSE(report.pools(2).live());
}

// gRPC takes 4 MiB in one message. A job that has run long has had many pools.
TEST_F(JobReportTest, AReportOfThousandsOfPoolsFitsAMessageAndSaysHowManyItLeavesOut) {
  constexpr int kPools = 20000, kLive = 64;
  for (int p = 0; p < kPools; ++p)
    Told(absl::StrCat("site-", 100000 + p), p, p % (kPools / kLive) == 0, 10 + p, 1, 1);
  for (int p = 0; p < kPools; ++p) {
    view_->set_aside.push_back({.job = "job",
                                .pool = absl::StrCat("site-", 100000 + p),
                                .fault = {.code = "NOT_FOUND", .message = std::string(4000, 'x')}});
  }
  const v1::Job all = Report(), bounded = Bounded(all);
  EXPECT_GT(all.ByteSizeLong(), 4u << 20);
  EXPECT_LT(bounded.ByteSizeLong(), 3u << 20);
  EXPECT_EQ(bounded.pools_size() + bounded.pools_left_out(), kPools);
  EXPECT_EQ(bounded.set_aside_size() + bounded.set_aside_left_out(), kPools);
  EXPECT_GT(bounded.set_aside_size(), 0);
  int live = 0;
  for (const v1::PoolProgress& pool : bounded.pools()) live += pool.live();
  EXPECT_EQ(live, kLive + 1);
  EXPECT_EQ(bounded.tokens(), all.tokens());
  EXPECT_EQ(bounded.inner_step(), 10);
  EXPECT_DOUBLE_EQ(bounded.compute_seconds(), 1);
}

TEST_F(JobReportTest, TheStepFollowsRoundsThatWentOnWithoutALatePool) {
  Told("fast", 0, true, 50, 3, 1);
  Told("stopped", 1, true, 1, 1, 1);
  EXPECT_EQ(Report().inner_step(), 1);
  const FragmentSchedule& schedule = resolved_.schedule[1];
  ASSERT_GE(schedule.rounds, 1);
  CommitRecord commit;
  commit.round.fragment = 1;
  commit.round.version = 1;
  job_->progress.SetCommit(commit);
  EXPECT_EQ(Report().inner_step(), schedule.PushStep(1));
  // The final round.
  commit.round.version = schedule.rounds + 1;
  job_->progress.SetCommit(commit);
  EXPECT_EQ(Report().inner_step(), schedule.PushStep(schedule.rounds));
}

TEST_F(JobReportTest, ASmallReportIsWhole) {
  Told("a", 0, false, 20, 3, 1);
  Told("b", 1, true, 10, 1, 1);
  EXPECT_EQ(Bounded(Report()).SerializeAsString(), Report().SerializeAsString());
}

TEST_F(JobReportTest, WaitingSaysWhatSinceWhenAndUntilWhen) {
  view_->waiting = Waiting{"2 pools (1 ready)", start_, absl::InfiniteFuture()};
  EXPECT_EQ(Report().waiting_for(), "2 pools (1 ready), for 1m30s");
  view_->waiting->until = start_ + absl::Seconds(100);
  EXPECT_EQ(Report().waiting_for(), "2 pools (1 ready), for 1m30s, at most 10s more");
  view_->waiting->until = start_ + absl::Seconds(90);
  EXPECT_EQ(Report().waiting_for(), "2 pools (1 ready), for 1m30s, at most 0s more");
  job_->fragments->set_full(JobFragments::Storing::kPart, "no space left");
  EXPECT_EQ(Report().waiting_for(), "the coordinator's disk: no space left");
}

TEST_F(JobReportTest, FragmentsHaveNamesSizesAndTheirCommit) {
  CommitRecord commit;
  commit.round.fragment = 1;
  commit.round.version = 3;
  commit.digest = {1, 2};
  job_->progress.SetCommit(commit);
  const v1::Job report = Report();
  ASSERT_EQ(report.fragments_size(), 2);
  EXPECT_EQ(report.fragments(0).digest(), "");
  EXPECT_EQ(report.fragments(1).rounds_committed(), 3);
  EXPECT_EQ(report.fragments(1).digest(), commit.digest.Hex());
  EXPECT_EQ(report.fragments(1).payload_bytes_up(), job_->fragments->up().FragmentBytes(100));
  job_->progress = JobProgress(2);
  EXPECT_EQ(Report().fragments_size(), 0);
  EXPECT_EQ(report.parameters(), 200);
}

TEST_F(JobReportTest, AnEndedJobIsShownFromItsRecord) {
  Told("a", 0, true, 20, 3, 1);
  view_->waiting = Waiting{"nothing", start_, absl::InfiniteFuture()};
  JobRecord record = job_->record;
  record.state = JobState::kCompleted;
  record.ended = start_ + absl::Seconds(5);
  record.status = KeptStatus(Report());
  const v1::Job report = ReportEnded(record);
  EXPECT_EQ(report.id(), "id");
  EXPECT_EQ(report.state(), v1::COMPLETED);
  EXPECT_EQ(report.spec().name(), "job");
  EXPECT_EQ(report.tokens(), 200);
  EXPECT_EQ(report.waiting_for(), "");
  EXPECT_FALSE(report.pools(0).live());
  EXPECT_EQ(report.ended_at().seconds(), 1005);
}

// Its report was kept without its spec.
TEST_F(JobReportTest, AJobThatAnEarlierVersionEndedIsListedWithItsSpec) {
  const std::unique_ptr<MetaStore> meta = *MetaStore::Open(":memory:");
  JobRecord record = job_->record;
  record.state = JobState::kCompleted;
  record.ended = start_;
  v1::Job kept;
  kept.set_tokens(200);
  record.status = kept.SerializeAsString();
  ASSERT_TRUE(meta->Commit({NewJob{record}}).ok());
  const auto listed = ReadListed(*meta, std::numeric_limits<int64_t>::max(), 10);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->at(0).report.spec().name(), "job");
  EXPECT_EQ(listed->at(0).report.tokens(), 200);
  EXPECT_EQ(listed->at(0).report.state(), v1::COMPLETED);
}

TEST_F(JobReportTest, LargePartsAreLeftOutOfASpecAndSmallOnesStay) {
  v1::JobSpec spec = job_->resolved->spec;
  EXPECT_EQ(Shortened(spec).SerializeAsString(), spec.SerializeAsString());
  for (int i = 0; i < 100; ++i) spec.mutable_pools()->add_names(std::string(60, 'a'));
  const v1::JobSpec shortened = Shortened(spec);
  EXPECT_FALSE(shortened.has_pools());
  EXPECT_EQ(shortened.name(), "job");
  EXPECT_EQ(shortened.train().steps(), 60);
}

TEST_F(JobReportTest, APoolWithOtherDataIsAWarningOfTheJob) {
  v1::DataSummary before, now;
  before.add_tokens(2000);
  now.add_tokens(100);
  Told("a", 0, true, 20, 3, 1);
  EXPECT_EQ(job_->progress.BeginWithData("a", before), "");
  EXPECT_TRUE(Report().warnings().empty());
  EXPECT_EQ(job_->progress.BeginWithData("a", now), "source 0 had 2000 tokens and has 100");
  ASSERT_EQ(Report().warnings_size(), 1);
  EXPECT_EQ(Report().warnings(0),
            "data: pool a restarted with other data: source 0 had 2000 tokens and has 100");
}

TEST_F(JobReportTest, WhatIsSuspiciousOfDataIsAWarningOfTheJob) {
  v1::DataSummary data;
  data.add_tokens(2000);
  for (int i = 0; i < 16; ++i) {
    v1::DataWarning& warning = *data.add_warnings();
    warning.set_kind("KIND_" + std::to_string(i));
    warning.set_message("file: is odd");
  }
  for (const char* pool : {"a", "b", "c", "d"}) {
    Told(pool, 0, true, 20, 3, 1);
    job_->progress.BeginWithData(pool, data);
  }
  const v1::Job report = Report();
  ASSERT_EQ(report.warnings_size(), 51);
  EXPECT_EQ(report.warnings(0), "data: pool a: file: is odd");
  EXPECT_EQ(report.warnings(50), "data: 14 more warnings of pools, in the job's events");
  EXPECT_EQ(report.pools(0).data().tokens(0), 2000);
  EXPECT_EQ(report.pools(0).data().warnings_size(), 0);
}

TEST_F(JobReportTest, AShortWaitOfARunningJobIsNoWait) {
  view_->waiting = Waiting{"fragment 0 version 1 from a", start_ + absl::Milliseconds(89'500),
                           absl::InfiniteFuture()};
  EXPECT_EQ(Report().waiting_for(), "");
  view_->state = JobState::kFinishing;
  EXPECT_NE(Report().waiting_for(), "");
}

TEST_F(JobReportTest, ACompletedJobDidAllItsStepsWhateverTheLastHeartbeatsSaid) {
  Told("a", 0, false, 41, 3, 1);
  EXPECT_EQ(Report().inner_step(), 41);
  job_->record.state = JobState::kCompleted;
  view_.reset();
  EXPECT_EQ(Report().inner_step(), 60);
  EXPECT_EQ(Report().pools(0).inner_step(), 41);
  job_->record.state = JobState::kCancelled;
  EXPECT_EQ(Report().inner_step(), 41);
}

TEST_F(JobReportTest, ACompletedJobThatNobodyReportedOnDidAllItsSteps) {
  job_->record.state = JobState::kCompleted;
  view_.reset();
  EXPECT_EQ(Report().inner_step(), 60);
}

TEST_F(JobReportTest, PoolsThatAreSetAsideAreShownWhileTheJobLives) {
  view_->set_aside = {{.job = "job",
                       .pool = "a",
                       .fault = {"NOT_FOUND", "no data", "data.text.path", "mount it", "a"},
                       .failures = 2,
                       .retry_at = start_ + absl::Seconds(97)},
                      {.job = "job", .pool = "b", .failures = 1, .retry_at = start_}};
  const v1::Job report = Report();
  ASSERT_EQ(report.set_aside_size(), 2);
  EXPECT_EQ(report.set_aside(0).pool(), "a");
  EXPECT_EQ(report.set_aside(0).error().field(), "data.text.path");
  EXPECT_EQ(report.set_aside(0).failures(), 2);
  EXPECT_EQ(report.set_aside(0).retry_in().seconds(), 7);
  EXPECT_EQ(report.set_aside(1).retry_in().seconds(), 0) << "it tries again";
  v1::Job kept;
  kept.ParseFromString(KeptStatus(report));
  EXPECT_EQ(kept.set_aside_size(), 0);
}

TEST_F(JobReportTest, AQuarantinedJobShowsWhyAndWhatItHad) {
  Told("a", 0, false, 20, 3, 1);
  view_->state = JobState::kQuarantined;
  view_->fault = job_->quarantine = JobFault{.code = "DATA_LOSS", .message = "bad bytes"};
  const v1::Job report = Report();
  EXPECT_EQ(report.state(), v1::QUARANTINED);
  EXPECT_EQ(report.error().message(), "bad bytes");
  EXPECT_EQ(report.tokens(), 200);
}

// Its store stays closed, so nothing else says how far it came.
TEST_F(JobReportTest, APausedJobShowsWhatItHadAlsoAfterARestart) {
  job_->pause = {.job_id = "id",
                 .stage = PauseStage::kPausing,
                 .at = start_ + absl::Seconds(7),
                 .by = "token:ann",
                 .reason = "night"};
  EXPECT_EQ(Report().state(), v1::PAUSING);
  job_->progress.SetCommit({.round = {1, 3}});
  const v1::Job then = Report();
  job_->pause.stage = PauseStage::kPaused;
  job_->pause.report = KeptStatus(then);
  job_->progress = JobProgress(2);
  const v1::Job report = Report();
  EXPECT_EQ(report.state(), v1::PAUSED);
  EXPECT_EQ(report.pause().at().seconds(), 1007);
  EXPECT_EQ(report.pause().by(), "token:ann");
  EXPECT_EQ(report.pause().reason(), "night");
  ASSERT_EQ(report.fragments_size(), 2);
  EXPECT_EQ(report.fragments(1).rounds_committed(), 3);
  // What is kept of it as a job that has ended says nothing of the pause.
  v1::Job kept;
  ASSERT_TRUE(kept.ParseFromString(KeptStatus(report)));
  EXPECT_FALSE(kept.has_pause());
  job_->pause.stage = PauseStage::kResumed;
  EXPECT_EQ(Report().state(), v1::RUNNING);
  EXPECT_FALSE(Report().has_pause());
  EXPECT_EQ(Report().fragments_size(), 0) << "until its store is open";
}

TEST_F(JobReportTest, AJobWhoseSpecIsNotUnderstoodIsShownFromItsRecord) {
  Told("a", 0, true, 20, 3, 1);
  JobRecord record = job_->record;
  record.status = KeptStatus(Report());
  LiveJob unusable(record);
  unusable.quarantine = JobFault{.code = "INVALID_ARGUMENT", .message = "spec"};
  const v1::Job report = ReportLive(unusable, view_, start_);
  EXPECT_EQ(report.state(), v1::QUARANTINED);
  EXPECT_EQ(report.error().message(), "spec");
  EXPECT_EQ(report.spec().name(), "job");
  EXPECT_EQ(report.tokens(), 200);
  // Cancelled.
  unusable.quarantine.reset();
  unusable.record.state = JobState::kCancelled;
  EXPECT_EQ(ReportLive(unusable, std::nullopt, start_).state(), v1::CANCELLED);
}

TEST_F(JobReportTest, AJobThatIsNotStoredHasItsFragmentsAndNoTimes) {
  const v1::Job report = UnstoredJob(resolved_);
  EXPECT_EQ(report.state(), v1::PENDING);
  EXPECT_EQ(report.fragments_size(), 2);
  EXPECT_EQ(report.unit_name(), "tokens");
  EXPECT_FALSE(report.has_created_at());
}

}  // namespace
}  // namespace longhaul::coordinator
