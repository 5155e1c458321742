#include "common/rpc/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/file_limit.h"
#include "common/base/listen_fault.h"
#include "common/base/resolved_address.h"
#include "grpc/support/log.h"

namespace longhaul {
namespace {

// Until the next try when there was no file or memory for a connection.
constexpr int kPauseMs = 100;

// New connections, most of whose cost is the handshake of TLS: more of them wait in the kernel's
// queue, so that clients who come and go do not take the processor from the others.
constexpr double kConnectionsPerSecond = 250, kConnectionsAtOnce = 1000;

// Clients who connect in vain again and again do so at the pace at which they are rejected. So,
// after a rejection, all connections wait in the queue for a moment. Then many of them are
// accepted: rejecting few at a time would keep the others out.
constexpr int kRejectedPauseMs = 10, kAcceptedAtOnce = 256;

void Set(int socket, int level, int name, int value) {
  (void)setsockopt(socket, level, name, &value, sizeof(value));
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port of an IPv4 address lies at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

uint64_t CookieOf(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

Peer PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return {{reinterpret_cast<const char*>(&v4.sin_addr), sizeof(v4.sin_addr)}, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  Peer peer{{reinterpret_cast<const char*>(&v6.sin6_addr), sizeof(v6.sin6_addr)},
            ntohs(v6.sin6_port)};
  // An IPv4 client of a socket of both families.
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) peer.address.erase(0, 12);
  return peer;
}

// -1, with errno: it does not listen. Connections inherit the options.
int Listen(const addrinfo& address, int port, bool both_families, absl::Duration silence_max) {
  const int socket =
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
  if (socket < 0) return -1;
  // A connection that has just ended does not keep its port.
  Set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(absl::ToInt64Milliseconds(silence_max)));
  sockaddr_storage bound{};
  std::memcpy(&bound, address.ai_addr, address.ai_addrlen);
  // Of both families.
  reinterpret_cast<sockaddr_in6&>(bound).sin6_port = htons(port);
  if (address.ai_family == AF_INET6) Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&bound), address.ai_addrlen) == 0 &&
      listen(socket, SOMAXCONN) == 0)
    return socket;
  const int error = errno;
  close(socket);
  errno = error;
  return -1;
}

void CloseAll(std::vector<int>& sockets) {
  for (const int socket : std::exchange(sockets, {})) close(socket);
}

// The sockets of all addresses that this machine has, with one port. Empty: none, or the port of
// one is in use.
std::vector<int> ListenAtAll(const HostPort& address, absl::Duration silence_max) {
  const bool all = address.host == "0.0.0.0" || address.host == "::";
  std::vector<int> sockets;
  int port = address.port;
  // One socket serves both families, where the machine has IPv6.
  for (const std::string& host :
       all ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector<std::string>{address.host}) {
    const absl::StatusOr<ResolvedAddress> found = Resolve({host, 0});
    if (!found.ok()) continue;
    for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
      const int socket = Listen(*one, port, all, silence_max);
      if (socket >= 0) {
        sockets.push_back(socket);
        port = PortOf(socket);
      } else if (errno == EADDRINUSE) {
        CloseAll(sockets);
        return sockets;
      }
    }
    if (!sockets.empty()) break;
  }
  return sockets;
}

void Reject(int connection, bool too_many) {
  close(connection);
  if (too_many) {
    gpr_log(GPR_ERROR, "too many connections: one is rejected%s", FileLimitWords(EMFILE).c_str());
  } else {
    gpr_log(GPR_ERROR, "a connection is rejected: its address keeps failing to connect");
  }
}

// The first number of a file that no connection gets. A new file gets the lowest free number.
int FirstReservedFile() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<int>::max();
  return static_cast<int>(limit.rlim_cur - limit.rlim_cur / 4);
}

}  // namespace

Peer PeerFromText(absl::string_view text) {
  Peer peer;
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(text.substr(colon + 1), &peer.port))
    return {};
  absl::string_view host = text.substr(0, colon);
  const bool v4 = absl::ConsumePrefix(&host, "ipv4:");
  // The brackets of an address, as a part of a URI.
  if (!v4 && !(absl::ConsumePrefix(&host, "ipv6:%5B") && absl::ConsumeSuffix(&host, "%5D")))
    return {};
  char bytes[sizeof(in6_addr)];
  if (inet_pton(v4 ? AF_INET : AF_INET6, std::string(host).c_str(), bytes) != 1) return {};
  peer.address.assign(bytes, v4 ? sizeof(in_addr) : sizeof(in6_addr));
  return peer;
}

bool IsReachedFromHereAlone(const std::string& host) {
  if (IsLoopback(host)) return true;
  const absl::StatusOr<ResolvedAddress> found = Resolve({host, 0});
  if (!found.ok()) return false;
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    char numeric[NI_MAXHOST];
    if (getnameinfo(one->ai_addr, one->ai_addrlen, numeric, sizeof(numeric), nullptr, 0,
                    NI_NUMERICHOST) != 0 ||
        !IsLoopback(numeric))
      return false;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const HostPort& address,
                                                         absl::Duration silence_max) {
  constexpr int kTries = 10;
  // A port that one address has free may be in use at another.
  for (int tries = address.port == 0 ? kTries : 1; tries > 0; --tries) {
    std::vector<int> sockets = ListenAtAll(address, silence_max);
    if (sockets.empty()) continue;
    auto listener = absl::WrapUnique(new Listener(std::move(sockets)));
    listener->port_ = PortOf(listener->sockets_.front());
    listener->stop_ = eventfd(0, EFD_CLOEXEC);
    if (listener->stop_ >= 0) return listener;
  }
  return ListenFault(address);
}

Listener::~Listener() { Stop(); }

void Listener::Start(Take take) {
  thread_ = std::thread([this, take = std::move(take)] { Run(take); });
}

void Listener::Stop() {
  absl::MutexLock lock(&stopping_);
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_, &one, sizeof(one));
    thread_.join();
  }
  CloseAll(sockets_);
  if (stop_ >= 0) close(std::exchange(stop_, -1));
}

void Listener::Used(const Peer& peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = files_.find(peer);
  if (found != files_.end()) accepted_[found->second].used = true;
}

bool Listener::Close(const Peer& peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = files_.find(peer);
  if (found == files_.end()) return false;
  const int file = found->second;
  // Its owner may close it meanwhile, and this process open another file of the same number: no
  // more than a look and a call lie between.
  const uint64_t cookie = std::exchange(accepted_[file].cookie, 0);
  if (cookie == 0 || CookieOf(file) != cookie) return false;
  // Not shutdown, after which all that was received would still be read.
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(file, &nobody, sizeof(nobody)) != 0) (void)shutdown(file, SHUT_RDWR);
  return true;
}

bool Listener::Keep(int connection, const Peer& peer, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Accepted& of_file = accepted_[connection];
  // The connection that had this file has ended.
  const Accepted before = std::exchange(of_file, {});
  if (const auto found = files_.find(before.peer);
      found != files_.end() && found->second == connection) {
    files_.erase(found);
    if (!before.used) visits_.Ended(before.peer.address, before.since, now);
  }
  if (visits_.IsExceeded(peer.address, now)) return false;
  of_file = {peer, CookieOf(connection), now};
  files_[peer] = connection;
  return true;
}

void Listener::Run(const Take& take) {
  std::vector<pollfd> watched = {{stop_, POLLIN, 0}};
  for (const int socket : sockets_) watched.push_back({socket, POLLIN, 0});
  const int reserved = FirstReservedFile();
  bool short_of_files = false, rejected = false;
  double room = kConnectionsAtOnce;
  absl::Time at = SteadyTime();
  while (true) {
    const absl::Time now = SteadyTime();
    room = std::min(
        kConnectionsAtOnce,
        room + kConnectionsPerSecond * absl::ToDoubleSeconds(now - std::exchange(at, now)));
    // During a pause only the end is waited for.
    const int pause = short_of_files ? kPauseMs
                      : room < 1 ? static_cast<int>(1000 * (1 - room) / kConnectionsPerSecond) + 1
                      : rejected ? kRejectedPauseMs
                                 : -1;
    const int ready = poll(watched.data(), pause < 0 ? watched.size() : 1, pause);
    if (ready > 0 && watched[0].revents != 0) return;
    short_of_files = rejected = false;
    if (pause >= 0) continue;
    for (size_t i = 1; i < watched.size(); ++i) {
      for (int n = 0; n < kAcceptedAtOnce && room >= 1; ++n) {
        sockaddr_storage from{};
        socklen_t size = sizeof(from);
        const int connection = accept4(watched[i].fd, reinterpret_cast<sockaddr*>(&from), &size,
                                       SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (connection < 0) {
          short_of_files |=
              errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
          break;
        }
        if (connection < reserved && Keep(connection, PeerOf(from), SteadyTime())) {
          room -= 1;
          take(connection);
          continue;
        }
        rejected = true;
        Reject(connection, connection >= reserved);
      }
    }
  }
}

}  // namespace longhaul
