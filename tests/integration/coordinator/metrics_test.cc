// What the operator sees over HTTP.
#include "absl/strings/numbers.h"
#include "tests/integration/coordinator/exchange_fixture.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

class MetricsTest : public ExchangeFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.metrics_listen = "127.0.0.1:0";
    return options;
  }
};

TEST_F(MetricsTest, RoundsAndBytesAreCounted) {
  Members members = MakeMembers({"site-a", "site-b"});
  SubmitAndBegin(Spec("metered"), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  EXPECT_FALSE(members[0]->pool.Push(1, 9, v1::OUTER, CodecKind::kFp32, Ramp(1)).ok());
  const std::string address = server_->metrics_address();
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  EXPECT_NE(HttpGet(port, "/healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(HttpGet(port, "/readyz").find("200 OK"), std::string::npos);
  const std::string text = HttpGet(port, "/metrics");
  for (const char* line : {
           "longhaul_coordinator_rounds_total{job=\"metered\",kind=\"seed\"} 2",
           "longhaul_coordinator_rounds_total{job=\"metered\",kind=\"outer\"} 1",
           "longhaul_coordinator_wire_payload_bytes_total{codec=\"fp32\",direction=\"up\"} 4800",
           "longhaul_coordinator_refused_streams_total{reason=\"VERSION_MISMATCH\"} 1",
           "longhaul_coordinator_apply_seconds_count 3",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace longhaul
