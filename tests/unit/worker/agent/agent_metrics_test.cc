#include "worker/agent/agent_metrics.h"

#include <signal.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"
#include "worker/agent/pool_supervisor.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AgentMetricsTest : public testing::Test {
 protected:
  AgentMetricsTest() { metrics_.AddPages(pages_); }
  std::string Text() const { return pages_.all().at("/metrics")({}).body; }
  void Progressed(const std::string& job, absl::Duration since_start = absl::ZeroDuration()) {
    v1::PoolProgress progress;
    progress.set_pool("site-a");
    progress.set_tokens(9);
    metrics_.Progressed(job, progress, start_ + since_start);
  }

  const absl::Time start_ = absl::UnixEpoch();
  const absl::Time before_ = absl::Now();
  AgentMetrics metrics_;
  Pages pages_;
};

TEST_F(AgentMetricsTest, CountsHowRanksEnd) {
  metrics_.RanksStarted(3);
  metrics_.RankExited(kRankCompleted);
  metrics_.RankExited(128 + SIGKILL);
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_starts_total 3"));
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_ranks 1"));
  EXPECT_THAT(Text(), HasSubstr("exits_total{reason=\"finished\"} 1"));
  EXPECT_THAT(Text(), HasSubstr("exits_total{reason=\"lost\"} 1"));
  EXPECT_THAT(Text(), HasSubstr("exits_total{reason=\"failed\"} 0"));
}

TEST_F(AgentMetricsTest, ShowsWhenTheCertificateEnds) {
  const TempDir folder;
  const TlsFiles files = WriteTlsFiles(folder.path(), TestAuthority("ours").certificate(),
                                       TestAuthority("ours").Issue("east", "DNS:east"));
  EXPECT_THAT(Text(), Not(HasSubstr("certificate")));
  metrics_.WatchTls(Tls::Load(files).value());
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_certificate_expiry_timestamp_seconds "));
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_tls_files_refused 0"));
}

TEST_F(AgentMetricsTest, ShowsRanksWhileTheyRun) {
  metrics_.RankReported(4, getpid(),
                        {.step = 17, .damaged_pulls = 2, .waits_for = "fragment 1 version 3"});
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_inner_step{rank=\"4\"} 17"));
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_waiting{rank=\"4\"} 1"));
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_damaged_pulls_total{rank=\"4\"} 2"));
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_resident_memory_bytes{rank=\"4\"} "));
  metrics_.RanksEnded();
  EXPECT_THAT(Text(), Not(HasSubstr("rank=\"4\"")));
}

TEST_F(AgentMetricsTest, RanksThatEndedByThemselvesAreNotShown) {
  metrics_.RanksStarted(2);
  for (const int rank : {0, 1}) metrics_.RankReported(rank, getpid(), {.step = 17});
  metrics_.RankExited(kRankCompleted);
  EXPECT_THAT(Text(), HasSubstr("longhaul_worker_rank_inner_step{rank=\"0\"} 17"));
  metrics_.RankExited(kRankCompleted);
  EXPECT_THAT(Text(), Not(HasSubstr("rank=\"")));
}

TEST_F(AgentMetricsTest, ShowsOnlyTheCurrentJob) {
  Progressed("first");
  EXPECT_THAT(Text(), HasSubstr("pool_tokens_total{job_name=\"first\",pool=\"site-a\"} 9"));
  Progressed("second");
  EXPECT_THAT(Text(), HasSubstr("job_name=\"second\""));
  EXPECT_THAT(Text(), Not(HasSubstr("job_name=\"first\"")));
}

TEST_F(AgentMetricsTest, AJobIsShownForAMinuteAfterItsRanksHaveEnded) {
  metrics_.RanksStarted(1);
  Progressed("first");
  metrics_.Tick(start_ + absl::Hours(1));
  EXPECT_THAT(Text(), HasSubstr("job_name=\"first\""));
  Progressed("first", absl::Hours(1));
  metrics_.RanksEnded();
  metrics_.Tick(start_ + absl::Hours(1) + absl::Seconds(59));
  EXPECT_THAT(Text(), HasSubstr("job_name=\"first\""));
  metrics_.Tick(start_ + absl::Hours(1) + absl::Minutes(1));
  EXPECT_THAT(Text(), Not(HasSubstr("job_name=\"first\"")));
}

TEST_F(AgentMetricsTest, SilenceCountsFromTheStart) {
  const std::string text = Text(), name = "\nlonghaul_worker_last_answer_timestamp_seconds ";
  const size_t place = text.find(name);
  ASSERT_NE(place, std::string::npos) << text;
  const double seconds = std::stod(text.substr(place + name.size()));
  // Figures are written with a few digits less than a clock has.
  EXPECT_GE(seconds, absl::ToDoubleSeconds(before_ - absl::UnixEpoch()) - 1);
  EXPECT_LE(seconds, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1);
}

TEST_F(AgentMetricsTest, IsReadyWhileTheCoordinatorAnswers) {
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_EQ(pages_.all().at("/readyz")({}).code, 503);
  EXPECT_THAT(std::string(metrics_.Ready(start).message()), HasSubstr("not answered yet"));
  metrics_.CoordinatorAnswered(start, absl::Seconds(30));
  EXPECT_TRUE(metrics_.Ready(start + absl::Seconds(30)).ok());
  EXPECT_FALSE(metrics_.Ready(start + absl::Seconds(31)).ok());
  EXPECT_THAT(std::string(metrics_.Ready(start + absl::Seconds(75)).message()),
              HasSubstr("for 1m15s"));
}

}  // namespace
}  // namespace longhaul
