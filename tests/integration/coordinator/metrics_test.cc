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

}  // namespace
}  // namespace longhaul
