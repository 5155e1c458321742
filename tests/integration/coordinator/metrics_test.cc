// What the operator sees over HTTP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/coordinator/exchange_fixture.h"

namespace longhaul {
namespace {

// The whole answer, headers and all.
std::string HttpGet(const std::string& address, const std::string& path) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\n\r\n");
    EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, n);
  }
  close(fd);
  return answer;
}

class MetricsTest : public ExchangeFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.metrics_listen = "127.0.0.1:0";
    return options;
  }
};

TEST_F(MetricsTest, RoundsAndBytesAreCounted) {
  const auto submitted = Submit(Spec("metered"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  Members members = MakeMembers({"site-a", "site-b"});
  Begin(submitted->job().id(), members);
  if (HasFatalFailure()) return;
  Round(members, 1, 1, v1::OUTER);
  EXPECT_FALSE(members[0]->pool.Push(1, 9, v1::OUTER, CodecKind::kFp32, Ramp(1)).ok());
  EXPECT_NE(HttpGet(server_->metrics_address(), "/healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(HttpGet(server_->metrics_address(), "/readyz").find("200 OK"), std::string::npos);
  const std::string text = HttpGet(server_->metrics_address(), "/metrics");
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
