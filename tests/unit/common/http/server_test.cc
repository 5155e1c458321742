#include "common/http/server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
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

// Those of an IPv6-only pod, too: its probes ask the pod's address.
TEST(HttpServerTest, AllAddressesAreThoseOfBothFamilies) {
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 own{.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  const bool has_ipv6 =
      probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0;
  if (probe >= 0) close(probe);
  for (const char* const all : {"0.0.0.0", "::"}) {
    const auto server = HttpServer::Start({.address = all}, Probes()).value();
    EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 ")) << all;
    if (!has_ipv6) continue;
    const int client = socket(AF_INET6, SOCK_STREAM, 0);
    own.sin6_port = htons(static_cast<uint16_t>(server->port()));
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0) << all;
    close(client);
  }
}

TEST(HttpServerTest, ParametersAreDecoded) {
  Pages pages;
  pages.Add("/echo", [](const PageRequest& request) {
    std::string body;
    for (const char* name : {"job", "empty", "none"}) body += request.Parameter(name) + "|";
    return Page{.body = body};
  });
  const auto server = HttpServer::Start({}, pages).value();
  EXPECT_THAT(HttpGet(server->port(), "/echo?job=a%20b+c&empty=&job=second"),
              EndsWith("\r\na b c|||"));
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
                EndsWith("\r\nthere is no such page; the pages are /healthz /metrics /readyz\n"))
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

TEST(HttpServerTest, AnAddressOfIpv6Works) {
  const auto options = HttpServer::OptionsFrom("[::1]:0");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->address, "::1");
  std::ifstream file("/proc/net/if_inet6");
  const std::string addresses(std::istreambuf_iterator<char>(file), {});
  if (!absl::StrContains(addresses, std::string(31, '0') + "1"))
    GTEST_SKIP() << "this machine has no ::1";
  const auto server = HttpServer::Start(*options, Probes());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), absl::StrCat("[::1]:", (*server)->port()));
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

// Connections that were opened, and never read.
class OpenRequests {
 public:
  explicit OpenRequests(int port) : port_(port) {}
  ~OpenRequests() {
    for (const int connection : connections_) close(connection);
  }
  void Send(absl::string_view text) {
    connections_.push_back(ConnectTcp(port_));
    ASSERT_GE(connections_.back(), 0);
    ASSERT_TRUE(
        SendAll(connections_.back(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  }

 private:
  const int port_;
  std::vector<int> connections_;
};

// A page that is not made before Go.
class SlowPage {
 public:
  void AddTo(Pages& pages) {
    pages.Add("/slow", [this](const PageRequest&) {
      go_.WaitForNotification();
      return Page{.body = std::string(16 << 20, 'x')};
    });
  }
  void Go() { go_.Notify(); }

 private:
  absl::Notification go_;
};

// More connections than the server has at one time send nothing or half a request, and all threads
// that make pages wait.
TEST(HttpServerTest, AProbeIsAnsweredAtOnceWhateverOthersDo) {
  Pages pages = Probes();
  SlowPage slow;
  slow.AddTo(pages);
  const auto server = HttpServer::Start({.connections_max = 200}, pages).value();
  OpenRequests others(server->port());
  for (int i = 0; i < 10; ++i) others.Send("GET /slow HTTP/1.1\r\n\r\n");
  for (int i = 0; i < 300; ++i) others.Send(i % 2 == 0 ? "" : "GET /hea");
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(HttpGet(server->port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
  slow.Go();
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServerTest, ToManyWhoWaitForPagesItSaysSo) {
  Pages pages = Probes();
  SlowPage slow;
  slow.AddTo(pages);
  const auto server = HttpServer::Start({}, pages).value();
  OpenRequests others(server->port());
  // Four are made, 64 wait. The answer to a probe shows that the request before it was taken.
  for (int i = 0; i < 68; ++i) {
    others.Send("GET /slow HTTP/1.1\r\n\r\n");
    EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_THAT(HttpGet(server->port(), "/slow"), HasSubstr("too many pages are being rendered"));
  slow.Go();
}

TEST(HttpServerTest, ALargePageIsSentWholeToAReaderThatIsLate) {
  Pages pages;
  pages.Add("/large", [](const PageRequest&) { return Page{.body = std::string(16 << 20, 'x')}; });
  const auto server = HttpServer::Start({}, pages).value();
  const int connection = ConnectTcp(server->port());
  constexpr absl::string_view kRequest = "GET /large HTTP/1.1\r\n\r\n";
  ASSERT_TRUE(
      SendAll(connection, {reinterpret_cast<const uint8_t*>(kRequest.data()), kRequest.size()}));
  absl::SleepFor(absl::Milliseconds(100));
  std::vector<char> buffer(1 << 20);
  size_t bytes = 0;
  for (ssize_t size; (size = read(connection, buffer.data(), buffer.size())) > 0;) bytes += size;
  EXPECT_GT(bytes, size_t{16} << 20);
  close(connection);
}

TEST(HttpServerTest, RefusesWhatItDoesNotKnow) {
  const auto server = HttpServer::Start({}, Probes()).value();
  EXPECT_THAT(HttpAsk(server->port(), "POST", "/healthz"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(HttpGet(server->port(), "/" + std::string(64 << 10, 'x')), StartsWith("HTTP/1.1 4"));
}

// A page of elsewhere, whose name means this machine by now, in a browser of this machine.
TEST(HttpServerTest, WithoutTokensItAnswersOnlyThoseWhoNameThisMachine) {
  const auto open = HttpServer::Start({}, Probes()).value();
  for (const char* host : {"localhost", "LocalHost:7071", "127.0.0.1", "127.0.0.1:80", "[::1]",
                           "[::1]:7071", "10.0.0.1:1"}) {
    EXPECT_THAT(HttpAsk(open->port(), "GET", "/healthz", "", host), StartsWith("HTTP/1.1 200 "))
        << host;
  }
  for (const char* host : {"evil.example", "evil.example:7071", "localhost.evil.example", "a",
                           "1.2.3.4.evil.example", ":80", "[evil]"}) {
    EXPECT_THAT(HttpAsk(open->port(), "GET", "/healthz", "", host), StartsWith("HTTP/1.1 403 "))
        << host;
  }
  Pages gated = Probes();
  gated.SetGate([](absl::string_view) { return absl::OkStatus(); });
  const auto with_tokens = HttpServer::Start({}, gated).value();
  const auto beyond = HttpServer::Start({.address = "0.0.0.0"}, Probes()).value();
  for (const int port : {with_tokens->port(), beyond->port()})
    EXPECT_THAT(HttpAsk(port, "GET", "/healthz", "", "site-a:80"), StartsWith("HTTP/1.1 200 "));
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

TEST(HttpServerTest, StopsWhilePagesAreMadeAndWaitedFor) {
  Pages pages;
  std::atomic<int> making = 0;
  pages.Add("/slow", [&](const PageRequest&) {
    ++making;
    absl::SleepFor(absl::Milliseconds(100));
    return Page{.body = "made"};
  });
  auto server = HttpServer::Start({}, pages).value();
  std::vector<std::thread> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back([port = server->port()] {
      const std::string answer = HttpGet(port, "/slow");
      EXPECT_TRUE(answer.empty() || answer.ends_with("made") ||
                  answer.ends_with("the server is stopping\n"))
          << answer;
    });
  }
  while (making == 0) absl::SleepFor(absl::Milliseconds(1));
  server.reset();
  for (std::thread& client : clients) client.join();
}

TEST(HttpServerTest, StopsListeningWhenDestroyed) {
  auto server = HttpServer::Start({}, Probes()).value();
  const int port = server->port();
  server.reset();
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

}  // namespace
}  // namespace longhaul
