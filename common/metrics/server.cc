#include "common/metrics/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CivetServer.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace longhaul {
namespace {

// civetweb serves a connection with a thread, from accept to close. A request is one short line and
// its headers: whoever does not send them at once is closed, so that half a request holds a thread
// for a moment only.
constexpr int kConnectionsServed = 64;
constexpr absl::Duration kRequestTime = absl::Seconds(1);
constexpr int kRequestBytesMax = 4096;

struct Page {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// One path, answered to GET.
class PageHandler : public CivetHandler {
 public:
  explicit PageHandler(std::function<Page()> page) : page_(std::move(page)) {}

  bool handleGet(CivetServer* server, mg_connection* connection) override {
    const Page page = page_();
    mg_printf(
        connection,
        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
        page.code, mg_get_response_code_text(connection, page.code), page.type.c_str(),
        page.body.size());
    mg_write(connection, page.body.data(), page.body.size());
    return true;
  }

 private:
  const std::function<Page()> page_;
};

Page ReadinessPage(const absl::Status& ready) {
  if (ready.ok()) return {.body = "ready\n"};
  return {.code = 503, .body = absl::StrCat("not ready: ", ready.message(), "\n")};
}

// civetweb looks whether it shall stop when a connection comes, else every two seconds: this brings
// connections until the server has stopped.
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
    // Not a number, so not where civetweb listens: it then stops by itself.
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
    connect(connection, target_->ai_addr,
            target_->ai_addrlen);  // Whether it is taken does not matter.
    close(connection);
  }

  struct Free {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
  };
  std::unique_ptr<addrinfo, Free> target_;
  std::jthread thread_;
};

}  // namespace

// Members are destroyed in reverse: the server stops before its handlers end.
struct MetricsServer::Http {
  Http(const MetricRegistry& registry, std::function<absl::Status()> ready)
      : metrics([&registry] {
          return Page{.type = "text/plain; version=0.0.4; charset=utf-8", .body = registry.Text()};
        }),
        health([] { return Page{.body = "ok\n"}; }),
        readiness([ready = std::move(ready)] { return ReadinessPage(ready()); }) {}

  PageHandler metrics, health, readiness;
  std::unique_ptr<CivetServer> server;
  std::string address;
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const Options& options, const MetricRegistry& registry, std::function<absl::Status()> ready) {
  if (options.port < 0 || options.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics port ", options.port, ": expected 0 to 65535"));
  }
  if (options.address.empty()) return absl::InvalidArgumentError("metrics: there is no host");
  const std::string address = absl::StrCat(options.address, ":", options.port);
  auto http = std::make_unique<Http>(registry, std::move(ready));
  try {  // civetweb's C++ wrapper reports by exceptions; this is the one call boundary.
    http->server = std::make_unique<CivetServer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", absl::StrCat(kConnectionsServed),
        "request_timeout_ms", absl::StrCat(absl::ToInt64Milliseconds(kRequestTime)),
        "max_request_size", absl::StrCat(kRequestBytesMax)});
  } catch (const CivetException& e) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics at ", address, ": ", e.what()));
  }
  const std::vector<int> ports = http->server->getListeningPorts();
  if (ports.empty()) return absl::UnavailableError(absl::StrCat("cannot bind ", address));
  http->address = options.address;
  http->server->addHandler("/metrics", http->metrics);
  http->server->addHandler("/healthz", http->health);
  http->server->addHandler("/readyz", http->readiness);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(http), ports.front()));
}

MetricsServer::MetricsServer(std::unique_ptr<Http> http, int port)
    : http_(std::move(http)), port_(port) {}

MetricsServer::~MetricsServer() {
  const StopWaker waker(http_->address, port_);
  http_->server->close();
}

}  // namespace longhaul
