#include "common/metrics/server.h"

#include <unistd.h>

#include <atomic>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MetricsServerTest, ServesMetricsHealthAndReadiness) {
  MetricRegistry registry;
  registry.Counter("longhaul_job_jobs_total", "Jobs.").With().Increment();
  std::atomic<bool> ready = false;
  const auto server =
      MetricsServer::Start({}, registry, [&] {
        return ready ? absl::OkStatus() : absl::UnavailableError("replaying the log");
      }).value();
  ASSERT_GT(server->port(), 0);
  EXPECT_THAT(HttpGet(server->port(), "/metrics"), HasSubstr("longhaul_job_jobs_total 1"));
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), HasSubstr("replaying the log"));
  ready = true;
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(server->port(), "/other"), StartsWith("HTTP/1.1 404 "));
}

TEST(MetricsServerTest, HalfRequestsDoNotHoldUpOthers) {
  MetricRegistry registry;
  const auto server = MetricsServer::Start({}, registry, [] { return absl::OkStatus(); }).value();
  constexpr absl::string_view kHalf = "GET /metr";
  std::vector<int> half_open;
  for (int i = 0; i < 50; ++i) {
    half_open.push_back(ConnectTcp(server->port()));
    ASSERT_TRUE(
        SendAll(half_open.back(), {reinterpret_cast<const uint8_t*>(kHalf.data()), kHalf.size()}));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  }
  // Nobody waits for the rest for long.
  for (const int connection : half_open) {
    char answer[512];
    while (read(connection, answer, sizeof(answer)) > 0) {
    }
    close(connection);
  }
}

TEST(MetricsServerTest, RefusesAPortThatIsTakenOrImpossible) {
  MetricRegistry registry;
  const auto ready = [] { return absl::OkStatus(); };
  const auto first = MetricsServer::Start({}, registry, ready).value();
  EXPECT_EQ(MetricsServer::Start({.port = first->port()}, registry, ready).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetricsServer::Start({.address = ""}, registry, ready).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MetricsServer::Start({.port = 70000}, registry, ready).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MetricsServerTest, StopsListeningWhenDestroyed) {
  MetricRegistry registry;
  auto server = MetricsServer::Start({}, registry, [] { return absl::OkStatus(); }).value();
  const int port = server->port();
  server.reset();
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

}  // namespace
}  // namespace longhaul
