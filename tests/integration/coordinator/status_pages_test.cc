// The status page and the JSON behind it, over HTTP.
#include "google/protobuf/util/json_util.h"
#include "longhaul/v1/curves.grpc.pb.h"
#include "longhaul/v1/status.pb.h"
#include "tests/integration/coordinator/exchange_fixture.h"

namespace longhaul {
namespace {

class StatusPagesTest : public PagesFixture {
 protected:
  template <typename Message>
  Message Read(const std::string& path) {
    const std::string answer = Get(path);
    EXPECT_NE(answer.find("HTTP/1.1 200"), std::string::npos) << answer;
    Message message;
    const auto parsed = google::protobuf::util::JsonStringToMessage(
        answer.substr(answer.find("\r\n\r\n") + 4), &message);
    EXPECT_TRUE(parsed.ok()) << answer;
    return message;
  }
};

TEST_F(StatusPagesTest, ShowsJobsPoolsAndRounds) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("shown"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  const auto overview = Read<v1::Overview>("/api/v1/overview");
  EXPECT_EQ(overview.not_ready(), "");
  ASSERT_EQ(overview.jobs_size(), 1);
  EXPECT_EQ(overview.jobs(0).spec().name(), "shown");
  EXPECT_EQ(overview.jobs(0).state(), v1::RUNNING);
  ASSERT_EQ(overview.pools_size(), 2);
  EXPECT_EQ(overview.pools(1).name(), "site-b");
  EXPECT_EQ(overview.pools(1).state(), v1::PARTICIPATING);
  const auto detail = Read<v1::JobDetail>("/api/v1/job?name=shown");
  EXPECT_EQ(detail.job().id(), overview.jobs(0).id());
  // Two seeds, and a round.
  ASSERT_GE(detail.rounds_size(), 3);
  const v1::RoundTrace& round = *detail.rounds().rbegin();
  EXPECT_EQ(round.fragment(), 1);
  EXPECT_EQ(round.kind(), "outer");
  EXPECT_EQ(round.pools_size(), 2);
  EXPECT_GE(round.committed_at().seconds(), round.pools(0).pushed_at().seconds());
  // Submitted; two pools, each assigned and ready.
  ASSERT_GE(detail.events_size(), 5);
  EXPECT_EQ(detail.events(0).message(), "was submitted");
  EXPECT_EQ(detail.events(1).sequence(), 2);
}

TEST_F(StatusPagesTest, ShowsWhatPoolsMeasuredOfTheirOwnParameters) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("shown"), members);
  if (HasFatalFailure()) return;
  for (const int fragment : {1, 0}) Round(members, fragment, 1, v1::OUTER);
  v1::HeartbeatRequest report;
  v1::Evaluation* const evaluation = report.add_evaluations();
  evaluation->set_step(4);
  evaluation->set_version(1);
  evaluation->set_loss(2.5);
  evaluation->set_of_pool(true);
  v1::Metric* const metric = evaluation->add_metrics();
  metric->set_name("perplexity");
  metric->set_value(12.2);
  report.mutable_progress()->set_inner_step(4);
  const std::string job = Read<v1::JobDetail>("/api/v1/job?name=shown").job().id();
  report.set_job_id(job);
  ASSERT_TRUE(members[1]->pool.Heartbeat(report).ok());
  const auto detail = Read<v1::JobDetail>("/api/v1/job?name=shown");
  EXPECT_EQ(detail.evaluations_size(), 0);
  ASSERT_EQ(detail.pool_evaluations_size(), 1);
  EXPECT_EQ(detail.pool_evaluations(0).pool(), "site-b");
  EXPECT_EQ(detail.pool_evaluations(0).points(0).loss(), 2.5);
  EXPECT_EQ(detail.job().pools(0).evaluation_step(), 4);
  EXPECT_EQ(detail.job().pools(0).evaluation(0).name(), "perplexity");
  // A name that no metric can have is refused, and nothing of that heartbeat counts.
  evaluation->set_step(5);
  for (const char* name : {"", "Loss", "a/b", "loss\n"}) {
    metric->set_name(name);
    EXPECT_TRUE(absl::IsInvalidArgument(members[1]->pool.Heartbeat(report).status())) << name;
  }
  metric->set_name("twice");
  *evaluation->add_metrics() = *metric;
  EXPECT_TRUE(absl::IsInvalidArgument(members[1]->pool.Heartbeat(report).status()));
  EXPECT_EQ(Read<v1::JobDetail>("/api/v1/job?name=shown").pool_evaluations(0).points_size(), 1);
  // Of a job that ended before the coordinator started, only the database has them.
  v1::CancelJobRequest cancel;
  cancel.set_job(job);
  v1::CancelJobResponse cancelled;
  ASSERT_TRUE(jobs_->CancelJob(Context().get(), cancel, &cancelled).ok());
  members.clear();
  Restart();
  const auto ended = Read<v1::JobDetail>("/api/v1/job?name=shown");
  EXPECT_EQ(ended.job().state(), v1::CANCELLED);
  ASSERT_EQ(ended.pool_evaluations_size(), 1);
  EXPECT_EQ(ended.pool_evaluations(0).points(0).loss(), 2.5);
}

TEST_F(StatusPagesTest, AnyJobHasAPageThoughTheOverviewHasTheNewest50) {
  for (int i = 0; i <= 50; ++i) ASSERT_TRUE(Submit(Spec(absl::StrCat("job-", i))).ok());
  const auto overview = Read<v1::Overview>("/api/v1/overview");
  ASSERT_EQ(overview.jobs_size(), 50);
  EXPECT_EQ(overview.jobs(0).spec().name(), "job-50");
  EXPECT_EQ(overview.jobs(49).spec().name(), "job-1");
  const v1::Job oldest = Read<v1::JobDetail>("/api/v1/job?name=job-0").job();
  EXPECT_EQ(oldest.spec().name(), "job-0");
  EXPECT_EQ(Read<v1::JobDetail>("/api/v1/job?name=" + oldest.id()).job().spec().name(), "job-0");
}

// What makes the pages has ended.
TEST_F(StatusPagesTest, NoneIsServedAfterTheShutdown) {
  const int port = HttpPort();
  EXPECT_NE(HttpGet(port, "/healthz"), "");
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

TEST_F(StatusPagesTest, UnknownJobsAndPathsAreNotFound) {
  EXPECT_NE(Get("/api/v1/job?name=nobody").find("HTTP/1.1 404"), std::string::npos);
  EXPECT_NE(Get("/api/v1/job").find("HTTP/1.1 404"), std::string::npos);
  EXPECT_NE(Get("/api/v1/secret").find("HTTP/1.1 404"), std::string::npos);
}

TEST_F(StatusPagesTest, ThePageIsWholeAndLoadsNothingFromElsewhere) {
  const std::string page = Get("/");
  EXPECT_NE(page.find("text/html"), std::string::npos);
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_NE(Get("/status.js").find("text/javascript"), std::string::npos);
  EXPECT_NE(Get("/status.css").find("prefers-color-scheme: dark"), std::string::npos);
  for (const char* path : {"/", "/status.js", "/status.css"}) {
    const std::string text = Get(path);
    EXPECT_EQ(text.find("src=\"http"), std::string::npos) << path;
    EXPECT_EQ(text.find("href=\"http"), std::string::npos) << path;
    EXPECT_EQ(text.find("url("), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace longhaul
