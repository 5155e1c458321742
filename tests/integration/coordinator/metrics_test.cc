// What operators see over HTTP.
#include "tests/integration/coordinator/exchange_fixture.h"

namespace longhaul {
namespace {

using MetricsTest = PagesFixture;

TEST_F(MetricsTest, RoundsAndBytesAreCounted) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("metered"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  EXPECT_FALSE(members[0]->pool.Push(1, 9, v1::OUTER, CodecKind::kFp32, Ramp(1)).ok());
  EXPECT_NE(Get("/healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(Get("/readyz").find("200 OK"), std::string::npos);
  const std::string text = Get("/metrics");
  for (const char* line : {
           "longhaul_coordinator_rounds_total{job_name=\"metered\",kind=\"seed\"} 2",
           "longhaul_coordinator_rounds_total{job_name=\"metered\",kind=\"outer\"} 1",
           "longhaul_coordinator_wire_payload_bytes_total{codec=\"fp32\",direction=\"up\","
           "fragment=\"1\",job_name=\"metered\"} 3600",
           "longhaul_coordinator_outer_gradient_cosine_ratio{fragment=\"1\",job_name=\"metered\"} "
           "1",
           "longhaul_coordinator_last_commit_timestamp_seconds{job_name=\"metered\"} ",
           "longhaul_coordinator_ready 1",
           "longhaul_coordinator_build_info{compiler=\"",
           "process_resident_memory_bytes ",
           "longhaul_coordinator_refused_streams_total{reason=\"VERSION_MISMATCH\"} 1",
           "longhaul_coordinator_apply_seconds_count 3",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

// An alert compares the last commit with the time, so it must not wait for the next commit.
TEST_F(MetricsTest, ARestartedCoordinatorShowsWhatItsRunningJobsHave) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("metered"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  Round(members, 0, 1, v1::OUTER);
  v1::HeartbeatRequest report;
  report.add_evaluations()->set_loss(2.5);
  report.mutable_evaluations(0)->set_step(2);
  report.mutable_evaluations(0)->set_version(1);
  ASSERT_TRUE(members[0]->pool.Heartbeat(report).ok());
  const std::string before = Get("/metrics");
  clock_.Advance(absl::Hours(2));
  Restart();
  ASSERT_TRUE(AwaitOpen("metered").ok());
  const std::string text = Get("/metrics");
  for (const char* line : {
           "longhaul_coordinator_last_commit_timestamp_seconds{job_name=\"metered\"} 1700000000\n",
           "longhaul_coordinator_eval_loss_nats{job_name=\"metered\"} 2.5\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  for (const char* series : {
           "longhaul_coordinator_outer_gradient_norm{fragment=\"1\",job_name=\"metered\"} ",
           "longhaul_coordinator_outer_parameter_norm{fragment=\"0\",job_name=\"metered\"} ",
           "longhaul_coordinator_downlink_nmse_ratio{fragment=\"1\",job_name=\"metered\"} ",
       }) {
    const size_t at = before.find(series);
    ASSERT_NE(at, std::string::npos) << series << "\n" << before;
    const std::string line = before.substr(at, before.find('\n', at) + 1 - at);
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("longhaul_coordinator_rounds_total{"), std::string::npos)
      << "nothing was published since the restart";
}

}  // namespace
}  // namespace longhaul
