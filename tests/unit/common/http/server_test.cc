#include "common/http/server.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "common/base/token_size.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Pages Probes() {
  Pages pages;
  AddProbes(pages, [] { return absl::OkStatus(); });
  return pages;
}

TEST(HttpServerTest, ServesThePagesThatItIsGiven) {
  Pages pages;
  pages.Add("/", [](const PageRequest&) { return Page{.type = "text/html", .body = "<p>root"}; });
  pages.Add("/echo", [](const PageRequest& request) {
    return Page{.body = request.Parameter("word") + "|" + request.Parameter("none")};
  });
  const auto server = HttpServer::Start({}, pages).value();
  ASSERT_GT(server->port(), 0);
  const std::string root = HttpGet(server->port(), "/");
  EXPECT_THAT(root, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(root, HasSubstr("Content-Type: text/html"));
  EXPECT_THAT(root, HasSubstr("default-src 'none'"));
  EXPECT_THAT(HttpGet(server->port(), "/echo?a=1&word=%3Cx%3E"), EndsWith("\r\n<x>|"));
  for (const char* other : {"/other", "/echo/below", "/echo2"}) {
    EXPECT_THAT(HttpGet(server->port(), other), StartsWith("HTTP/1.1 404 ")) << other;
  }
}

TEST(HttpServerTest, WhoAsksForAnUnknownPageIsToldWhichThereAre) {
  Pages pages = Probes();
  pages.Add("/metrics", [](const PageRequest&) { return Page{.body = "secret"}; });
  pages.SetGate([](absl::string_view) { return absl::UnauthenticatedError("a token is needed"); });
  const auto server = HttpServer::Start({}, pages).value();
  for (const char* unknown : {"/", "/other", "/metrics/below", "/metrics2", "/*", "/$"}) {
    const std::string answer = HttpGet(server->port(), unknown);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404 ")) << unknown;
    EXPECT_THAT(answer,
                EndsWith("\r\nthere is no such page; there are /healthz /metrics /readyz\n"))
        << unknown;
  }
}

TEST(HttpServerTest, ProbesTellHealthFromReadiness) {
  std::atomic<bool> ready = false;
  Pages pages;
  AddProbes(pages,
            [&] { return ready ? absl::OkStatus() : absl::UnavailableError("replaying the log"); });
  const auto server = HttpServer::Start({}, pages).value();
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), HasSubstr("replaying the log"));
  ready = true;
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServerTest, AHeadRequestGetsTheAnswerOfAGetWithoutThePage) {
  Pages pages = Probes();
  pages.Add("/secret", [](const PageRequest&) { return Page{.body = "secret"}; });
  pages.SetGate([](absl::string_view) { return absl::UnauthenticatedError("a token is needed"); });
  const auto server = HttpServer::Start({}, pages).value();
  const auto head = [&](const std::string& path) { return HttpAsk(server->port(), "HEAD", path); };
  EXPECT_THAT(head("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(head("/healthz"), HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(head("/healthz"), EndsWith("\r\n\r\n"));
  EXPECT_THAT(head("/secret"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(head("/other"), StartsWith("HTTP/1.1 404 "));
}

TEST(HttpServerTest, TheLongestTokenFits) {
  const std::string longest = "Bearer " + std::string(kTokenBytesMax, 'x');
  Pages pages = Probes();
  pages.Add("/secret", [](const PageRequest&) { return Page{.body = "secret"}; });
  pages.SetGate([&](absl::string_view authorization) {
    return authorization == longest ? absl::OkStatus() : absl::UnauthenticatedError("another");
  });
  const auto server = HttpServer::Start({}, pages).value();
  EXPECT_THAT(HttpGet(server->port(), "/secret", longest), EndsWith("\r\nsecret"));
}

TEST(HttpServerTest, TakesAddressesAndLocalhost) {
  EXPECT_EQ(HttpServer::OptionsFrom("localhost:7071")->address, "127.0.0.1");
  EXPECT_THAT(std::string(HttpServer::OptionsFrom("nonsense").status().message()),
              HasSubstr("\"nonsense\": expected host:port"));
}

TEST(HttpServerTest, AnAddressOfIpv6WorksOrIsRefusedWithTheReason) {
  const auto options = HttpServer::OptionsFrom("[::1]:0");
  if (options.ok()) {
    EXPECT_TRUE(HttpServer::Start(*options, Probes()).ok());
  } else {
    EXPECT_TRUE(absl::IsInvalidArgument(options.status()));
    EXPECT_THAT(std::string(options.status().message()), HasSubstr("IPv4 addresses only"));
  }
}

TEST(HttpServerTest, IncompleteRequestsDoNotDelayOthers) {
  const auto server = HttpServer::Start({}, Probes()).value();
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
  // The server does not wait long for the rest of a request.
  for (const int connection : half_open) {
    char answer[512];
    while (read(connection, answer, sizeof(answer)) > 0) {
    }
    close(connection);
  }
}

TEST(HttpServerTest, RefusesAPortThatIsTakenOrImpossible) {
  const auto first = HttpServer::Start({}, Probes()).value();
  EXPECT_EQ(HttpServer::Start({.port = first->port()}, Probes()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(HttpServer::Start({.address = ""}, Probes()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpServer::Start({.port = 70000}, Probes()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HttpServerTest, StopsListeningWhenDestroyed) {
  auto server = HttpServer::Start({}, Probes()).value();
  const int port = server->port();
  server.reset();
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

}  // namespace
}  // namespace longhaul
