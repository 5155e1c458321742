#include "common/http/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CivetServer.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/host_port.h"
#include "common/base/listen_fault.h"
#include "common/base/token_size.h"

namespace longhaul {
namespace {

// A thread of civetweb serves one connection, from accept to close. A request is one short line and
// its headers. A client that does not send them at once is disconnected, so that half a request
// does not hold a thread for long.
constexpr int kConnectionsServed = 64;
constexpr absl::Duration kRequestTime = absl::Seconds(1);
constexpr int kRequestBytesMax = 4096 + kTokenBytesMax;
// The bit of mg_check_feature.
constexpr unsigned kIpv6 = 8;
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// A HEAD request gets what a GET would get, without the page itself: monitors ask so.
enum class Answered { kPage, kHead };

void Send(mg_connection* connection, const Page& page, Answered answered) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: %s\r\nConnection: close\r\n\r\n",
            page.code, mg_get_response_code_text(connection, page.code), page.type.c_str(),
            page.body.size(), page.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
            kContentPolicy);
  if (answered == Answered::kPage) mg_write(connection, page.body.data(), page.body.size());
}

// Answers GET and HEAD.
class GetHandler : public CivetHandler {
 public:
  virtual void Answer(mg_connection* connection, Answered answered) = 0;

  bool handleGet(CivetServer*, mg_connection* connection) override {
    Answer(connection, Answered::kPage);
    return true;
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    Answer(connection, Answered::kHead);
    return true;
  }
};

// Of every path that no other handler has.
class NoSuchPage : public GetHandler {
 public:
  explicit NoSuchPage(const Pages& pages) {
    for (const auto& [path, _] : pages.all()) absl::StrAppend(&body_, " ", path);
    body_.append("\n");
  }

  void Answer(mg_connection* connection, Answered answered) override {
    Send(connection, {.code = 404, .body = body_}, answered);
  }

 private:
  std::string body_ = "there is no such page; there are";
};

// Of one path.
class PageHandler : public GetHandler {
 public:
  // Without `gate` every request passes.
  PageHandler(std::string path, Pages::Make make, Pages::Gate gate, NoSuchPage* others)
      : path_(std::move(path)), make_(std::move(make)), gate_(std::move(gate)), others_(others) {}

  void Answer(mg_connection* connection, Answered answered) override {
    const mg_request_info& request = *mg_get_request_info(connection);
    // civetweb also calls the handler for paths below its own.
    if (path_ != request.local_uri) return others_->Answer(connection, answered);
    Send(connection,
         PageFor(mg_get_header(connection, "Authorization"),
                 {.query = request.query_string ? request.query_string : ""}),
         answered);
  }

 private:
  Page PageFor(const char* authorization, const PageRequest& request) const {
    if (gate_) {
      const absl::Status passes = gate_(authorization == nullptr ? "" : authorization);
      if (!passes.ok()) return {.code = 401, .body = absl::StrCat(passes.message(), "\n")};
    }
    return make_(request);
  }

  const std::string path_;
  const Pages::Make make_;
  const Pages::Gate gate_;
  NoSuchPage* const others_;
};

// civetweb checks whether it must stop when a connection comes, and otherwise every two seconds.
// This class makes connections until the server has stopped.
class StopWaker {
 public:
  StopWaker(const std::string& address, int port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    absl::string_view host = address;
    if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
    addrinfo* found = nullptr;
    const std::string name(host), service = absl::StrCat(port);
    // The host is not a numeric address, so civetweb does not listen there, and it stops by itself.
    if (getaddrinfo(name.c_str(), service.c_str(), &hints, &found) != 0) return;
    target_.reset(found);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        Connect();
        absl::SleepFor(absl::Milliseconds(10));
      }
    });
  }

 private:
  void Connect() const {
    const int connection =
        socket(target_->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connection < 0) return;
    // It does not matter whether the connection is accepted.
    connect(connection, target_->ai_addr, target_->ai_addrlen);
    close(connection);
  }

  struct Free {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
  };
  std::unique_ptr<addrinfo, Free> target_;
  std::jthread thread_;
};

}  // namespace

// Members are destroyed in reverse order, so the server stops before its handlers end.
struct HttpServer::Http {
  explicit Http(const Pages& pages) : others(pages) {}

  NoSuchPage others;
  std::deque<PageHandler> handlers;
  std::unique_ptr<CivetServer> server;
  std::string address;
};

absl::StatusOr<HttpServer::Options> HttpServer::OptionsFrom(const std::string& listen) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  const bool v6 = absl::StrContains(address->host, ':');
  if (v6 && mg_check_feature(kIpv6) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", listen,
                     "\": HTTP is served at IPv4 addresses only, since civetweb was "
                     "built without IPv6: name one, for example 127.0.0.1"));
  }
  return Options{.address = address->host == "localhost" ? "127.0.0.1"
                            : v6                         ? absl::StrCat("[", address->host, "]")
                                                         : address->host,
                 .port = address->port};
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options, Pages pages) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("HTTP port ", options.port, ": expected 0 to 65535"));
  }
  if (options.address.empty()) return absl::InvalidArgumentError("HTTP: there is no host");
  const std::string address = absl::StrCat(options.address, ":", options.port);
  auto http = std::make_unique<Http>(pages);
  // civetweb's C++ wrapper reports by exceptions. This is the only place where it is called.
  try {
    http->server = std::make_unique<CivetServer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", absl::StrCat(kConnectionsServed),
        "request_timeout_ms", absl::StrCat(absl::ToInt64Milliseconds(kRequestTime)),
        "max_request_size", absl::StrCat(kRequestBytesMax)});
  } catch (const CivetException&) {
    // What it says is of its own objects.
    return ListenFault(*ParseHostPort(address));
  }
  const std::vector<int> ports = http->server->getListeningPorts();
  if (ports.empty()) return ListenFault(*ParseHostPort(address));
  http->address = options.address;
  for (const auto& [path, page] : pages.all()) {
    // Without this handler, that of "/" would get every path.
    http->server->addHandler(
        path + "$", http->handlers.emplace_back(
                        path, page.make, page.open ? Pages::Gate() : pages.gate(), &http->others));
  }
  // Of several patterns that match a path, the first one counts.
  http->server->addHandler("**", http->others);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(http), ports.front()));
}

HttpServer::HttpServer(std::unique_ptr<Http> http, int port)
    : http_(std::move(http)), port_(port) {}

HttpServer::~HttpServer() {
  const StopWaker waker(http_->address, port_);
  http_->server->close();
}

std::string HttpServer::address() const { return absl::StrCat(http_->address, ":", port_); }

}  // namespace longhaul
