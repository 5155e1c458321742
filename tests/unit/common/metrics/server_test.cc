#include "common/metrics/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The whole answer to one request; empty if nobody listens.
std::string Get(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, n);
  }
  close(fd);
  return answer;
}

TEST(MetricsServerTest, ServesMetricsHealthAndReadiness) {
  MetricRegistry registry;
  registry.Counter("longhaul_job_jobs_total", "Jobs.").With().Increment();
  std::atomic<bool> ready = false;
  const auto server =
      MetricsServer::Start({}, registry, [&] {
        return ready ? absl::OkStatus() : absl::UnavailableError("replaying the log");
      }).value();
  ASSERT_GT(server->port(), 0);
  EXPECT_THAT(Get(server->port(), "/metrics"), HasSubstr("longhaul_job_jobs_total 1"));
  EXPECT_THAT(Get(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get(server->port(), "/readyz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get(server->port(), "/readyz"), HasSubstr("replaying the log"));
  ready = true;
  EXPECT_THAT(Get(server->port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get(server->port(), "/other"), StartsWith("HTTP/1.1 404 "));
}

TEST(MetricsServerTest, RefusesAPortThatIsTakenOrImpossible) {
  MetricRegistry registry;
  const auto ready = [] { return absl::OkStatus(); };
  const auto first = MetricsServer::Start({}, registry, ready).value();
  EXPECT_EQ(MetricsServer::Start({.port = first->port()}, registry, ready).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetricsServer::Start({.port = 70000}, registry, ready).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MetricsServerTest, StopsListeningWhenDestroyed) {
  MetricRegistry registry;
  auto server = MetricsServer::Start({}, registry, [] { return absl::OkStatus(); }).value();
  const int port = server->port();
  server.reset();
  EXPECT_EQ(Get(port, "/healthz"), "");
}

}  // namespace
}  // namespace longhaul
