#include "common/http/server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/host_port.h"
#include "common/base/listen_fault.h"
#include "common/base/token_size.h"
#include "common/http/request_head.h"

namespace longhaul {
namespace {

constexpr size_t kConnectionsMax = 256, kPagesMax = 64;
constexpr int kThreads = 4, kAcceptedAtOnce = 64;
// A request is one short line and its headers. A client that does not send them at once is
// disconnected.
constexpr size_t kHeadBytesMax = 4096 + kTokenBytesMax;
constexpr absl::Duration kRequestTime = absl::Seconds(1), kAnswerTime = absl::Seconds(10);
// Until the next try when there was no file for a connection.
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const char* WordsOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

// `head`: a HEAD request gets what a GET would get, without the page itself: monitors ask so.
std::string AnswerOf(const Page& page, bool head) {
  return absl::StrCat("HTTP/1.1 ", page.code, " ", WordsOf(page.code),
                      "\r\nContent-Type: ", page.type, "\r\nContent-Length: ", page.body.size(),
                      "\r\n", page.code == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
                      page.code == 405 ? "Allow: GET, HEAD\r\n" : "",
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "Content-Security-Policy: ",
                      kContentPolicy, "\r\nConnection: close\r\n\r\n", head ? "" : page.body);
}

absl::string_view WithoutBrackets(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return host;
}

// Whether a Host header names this machine as only it can be named.
bool NamesThisMachine(const std::string& host) {
  if (host.empty()) return true;  // Browsers always say it.
  const absl::StatusOr<HostPort> parsed = ParseHostPort(
      absl::StrContains(host.substr(host.rfind(']') + 1), ':') ? host : absl::StrCat(host, ":80"));
  if (!parsed.ok()) return false;
  const bool number = absl::StrContains(parsed->host, ':') ||
                      parsed->host.find_first_not_of("0123456789.") == std::string::npos;
  return number || absl::EqualsIgnoreCase(parsed->host, "localhost");
}

// A socket that listens, or -1.
int ListenAt(const HttpServer::Options& options) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host(WithoutBrackets(options.address)), port = absl::StrCat(options.port);
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  const int listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  // A connection that has just ended does not keep its port.
  const int on = 1;
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, found->ai_addr, found->ai_addrlen) == 0 && listen(listener, SOMAXCONN) == 0)
    return listener;
  close(listener);
  return -1;
}

int PortOf(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port of an IPv4 address lies at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

void Ring(int event) {
  const uint64_t one = 1;
  (void)!write(event, &one, sizeof(one));
}

// A socket without an owner, closed at the end.
class OwnedFile {
 public:
  explicit OwnedFile(int file) : file_(file) {}
  OwnedFile(OwnedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OwnedFile& operator=(OwnedFile&&) = delete;
  ~OwnedFile() {
    if (file_ >= 0) close(file_);
  }
  int operator*() const { return file_; }

 private:
  int file_;
};

}  // namespace

class HttpServer::Loop {
 public:
  Loop(int listener, Pages pages, bool own_machine_only)
      : pages_(std::move(pages)),
        own_machine_only_(own_machine_only),
        listener_(listener),
        stop_(eventfd(0, EFD_CLOEXEC)),
        made_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    unknown_ = "there is no such page; there are";
    for (const auto& [path, _] : pages_.all()) absl::StrAppend(&unknown_, " ", path);
    unknown_ += "\n";
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { MakePages(); });
    threads_.emplace_back([this] { Run(); });
  }
  ~Loop() {
    Ring(*stop_);
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  enum class State { kReading, kMaking, kWriting, kEnding };
  struct Connection {
    OwnedFile file;
    State state = State::kReading;
    // When it is closed, whatever its state is then. kMaking: never.
    absl::Time until;
    RequestHead request;
    // What was read, or is written.
    std::string bytes;
    size_t written = 0;
  };
  using Connections = std::map<int64_t, Connection>;
  struct Work {
    int64_t connection = 0;
    Page page;
    const Pages::Entry* entry = nullptr;
    RequestHead request;
  };

  void Run() {
    while (true) {
      std::vector<pollfd> watched = {{*stop_, POLLIN, 0}, {*made_, POLLIN, 0}};
      watched.push_back({SteadyTime() < accept_from_ ? -1 : *listener_, POLLIN, 0});
      absl::Time next = accept_from_ > SteadyTime() ? accept_from_ : absl::InfiniteFuture();
      std::vector<int64_t> order;
      for (const auto& [id, connection] : connections_) {
        const int16_t events = connection.state == State::kWriting ? POLLOUT : POLLIN;
        watched.push_back({connection.state == State::kMaking ? -1 : *connection.file, events, 0});
        order.push_back(id);
        next = std::min(next, connection.until);
      }
      const int64_t wait_ms = absl::ToInt64Milliseconds(
          absl::Ceil(std::clamp(next - SteadyTime(), absl::ZeroDuration(), absl::Minutes(1)),
                     absl::Milliseconds(1)));
      (void)poll(watched.data(), watched.size(), static_cast<int>(wait_ms));
      if (watched[0].revents != 0) return;
      for (size_t i = 0; i < order.size(); ++i) {
        if (watched[i + 3].revents != 0) Continue(order[i]);
      }
      TakeMade();
      std::erase_if(connections_,
                    [now = SteadyTime()](const auto& entry) { return entry.second.until <= now; });
      if (watched[2].revents != 0) Accept();
    }
  }

  void Accept() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      const int file = accept4(*listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (file < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
          accept_from_ = SteadyTime() + kPause;
        return;
      }
      if (connections_.size() >= kConnectionsMax) MakeRoom();
      const int64_t id = ++newest_;
      connections_.emplace(
          id, Connection{.file = OwnedFile(file), .until = SteadyTime() + kRequestTime});
      Continue(id);  // The request has mostly come with the connection.
    }
  }

  // Closes the oldest connection, of those that have not sent their request if there is one. Those
  // that wait for pages are too few to be all.
  void MakeRoom() {
    const auto oldest = [this](bool reading) {
      return std::find_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
        return reading ? entry.second.state == State::kReading
                       : entry.second.state != State::kMaking;
      });
    };
    auto chosen = oldest(/*reading=*/true);
    if (chosen == connections_.end()) chosen = oldest(/*reading=*/false);
    connections_.erase(chosen);
  }

  // Does what the connection is ready for.
  void Continue(int64_t id) {
    Connection& connection = connections_.at(id);
    const bool goes_on = connection.state == State::kReading   ? Read(id, connection)
                         : connection.state == State::kWriting ? Write(connection)
                                                               : Drop(connection);
    if (!goes_on) connections_.erase(id);
  }

  // Each of these returns false when the connection has ended.
  bool Read(int64_t id, Connection& connection) {
    char buffer[4096];
    while (true) {
      const ssize_t size = recv(*connection.file, buffer, sizeof(buffer), 0);
      if (size < 0 && errno == EAGAIN) return true;
      if (size <= 0) return false;
      connection.bytes.append(buffer, size);
      const size_t head = HeadBytes(connection.bytes);
      if (head == 0 && connection.bytes.size() <= kHeadBytesMax) continue;
      if (head == 0 || head > kHeadBytesMax)
        return Answer(connection, {.code = 431, .body = "the request's headers are too large\n"});
      absl::StatusOr<RequestHead> request =
          ParseRequestHead(absl::string_view(connection.bytes).substr(0, head));
      connection.bytes.clear();
      if (!request.ok()) {
        return Answer(connection,
                      {.code = 400, .body = absl::StrCat(request.status().message(), "\n")});
      }
      connection.request = *std::move(request);
      return Take(id, connection);
    }
  }

  bool Take(int64_t id, Connection& connection) {
    const RequestHead& request = connection.request;
    if (request.method != "GET" && request.method != "HEAD")
      return Answer(connection, {.code = 405, .body = "only GET and HEAD are answered\n"});
    if (own_machine_only_ && !NamesThisMachine(request.host)) {
      return Answer(connection, {.code = 403,
                                 .body = "this server answers only requests for localhost or a "
                                         "numeric address: --tokens lets it answer others\n"});
    }
    const auto found = pages_.all().find(request.path);
    if (found == pages_.all().end()) return Answer(connection, {.code = 404, .body = unknown_});
    if (found->second.probe) return Answer(connection, found->second({.query = request.query}));
    const auto making = std::count_if(connections_.begin(), connections_.end(), [](const auto& c) {
      return c.second.state == State::kMaking;
    });
    if (making >= static_cast<int64_t>(kPagesMax))
      return Answer(connection, {.code = 503, .body = "too many pages are being made\n"});
    connection.state = State::kMaking;
    connection.until = absl::InfiniteFuture();
    absl::MutexLock lock(&mutex_);
    works_.push_back({.connection = id, .entry = &found->second, .request = request});
    return true;
  }

  bool Answer(Connection& connection, const Page& page) {
    connection.bytes = AnswerOf(page, connection.request.method == "HEAD");
    connection.state = State::kWriting;
    connection.until = SteadyTime() + kAnswerTime;
    return Write(connection);
  }

  static bool Write(Connection& connection) {
    while (connection.written < connection.bytes.size()) {
      const ssize_t size =
          send(*connection.file, connection.bytes.data() + connection.written,
               connection.bytes.size() - connection.written, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (size < 0 && errno == EAGAIN) return true;
      if (size < 0) return false;
      connection.written += size;
    }
    // Bytes that the client still sends must not reset the connection before it has read.
    connection.bytes.clear();
    connection.state = State::kEnding;
    connection.until = SteadyTime() + kRequestTime;
    return shutdown(*connection.file, SHUT_WR) == 0;
  }

  // A client that sends without end does not keep the others waiting.
  static bool Drop(const Connection& connection) {
    char buffer[4096];
    const ssize_t size = recv(*connection.file, buffer, sizeof(buffer), 0);
    return size > 0 || (size < 0 && errno == EAGAIN);
  }

  void TakeMade() {
    uint64_t count = 0;
    if (read(*made_, &count, sizeof(count)) < 0) return;
    std::vector<Work> works;
    {
      absl::MutexLock lock(&mutex_);
      works.swap(works_made_);
    }
    for (const Work& work : works) {
      if (!Answer(connections_.at(work.connection), work.page)) connections_.erase(work.connection);
    }
  }

  // The other threads.
  void MakePages() {
    const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !works_.empty();
    };
    while (true) {
      Work work;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&something));
        if (stopping_) return;
        work = std::move(works_.front());
        works_.pop_front();
      }
      work.page = Make(*work.entry, work.request);
      {
        absl::MutexLock lock(&mutex_);
        works_made_.push_back(std::move(work));
      }
      Ring(*made_);
    }
  }

  Page Make(const Pages::Entry& entry, const RequestHead& request) const {
    if (!entry.open && pages_.gate()) {
      const absl::Status passes = pages_.gate()(request.authorization);
      if (!passes.ok()) return {.code = 401, .body = absl::StrCat(passes.message(), "\n")};
    }
    return entry({.query = request.query});
  }

  const Pages pages_;
  const bool own_machine_only_;
  std::string unknown_;
  const OwnedFile listener_;
  // Readable when the loop must end, and when pages are made.
  const OwnedFile stop_, made_;
  // The loop's own. By age.
  Connections connections_;
  int64_t newest_ = 0;
  absl::Time accept_from_ = absl::InfinitePast();

  absl::Mutex mutex_;
  std::deque<Work> works_ ABSL_GUARDED_BY(mutex_);
  std::vector<Work> works_made_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

absl::StatusOr<HttpServer::Options> HttpServer::OptionsFrom(const std::string& listen) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  const bool v6 = absl::StrContains(address->host, ':');
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
  const std::string host(WithoutBrackets(options.address));
  const int listener = ListenAt(options);
  if (listener < 0) return ListenFault({host, options.port});
  const int port = PortOf(listener);
  const bool own_machine_only = IsLoopback(host) && !pages.gate();
  return std::unique_ptr<HttpServer>(new HttpServer(
      std::make_unique<Loop>(listener, std::move(pages), own_machine_only), options.address, port));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop, std::string host, int port)
    : loop_(std::move(loop)), host_(std::move(host)), port_(port) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const { return absl::StrCat(host_, ":", port_); }

}  // namespace longhaul
