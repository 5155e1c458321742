#include "tests/testing/cutting_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"

namespace longhaul {
CuttingProxy::CuttingProxy(Options options)
    : options_(options), listener_(ListenTcp(16)), accept_([this] { Accept(); }) {}

CuttingProxy::~CuttingProxy() {
  std::list<Connection> connections;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    // Ends the accept.
    shutdown(listener_.socket, SHUT_RDWR);
    for (const Connection& connection : connections_) {
      shutdown(connection.client, SHUT_RDWR);
      shutdown(connection.target, SHUT_RDWR);
    }
    connections.swap(connections_);
  }
  accept_.join();
  for (Connection& connection : connections) {
    connection.up.join();
    connection.down.join();
    close(connection.client);
    close(connection.target);
  }
  close(listener_.socket);
}

std::string CuttingProxy::address() const { return "127.0.0.1:" + std::to_string(listener_.port); }

bool CuttingProxy::Cuts(int number, int client) const {
  if (options_.segment_bytes_max == 0) return number < options_.cuts;
  int bytes = 0;
  socklen_t size = sizeof bytes;
  return getsockopt(client, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) == 0 &&
         bytes > options_.segment_bytes_max;
}

void CuttingProxy::Accept() {
  for (int number = 0;; ++number) {
    const int client = accept(listener_.socket, nullptr, nullptr);
    if (client < 0) return;
    const int target = ConnectTcp(options_.target_port);
    if (target < 0) {
      // The target is not there, so the proxy behaves in the same way.
      close(client);
      --number;
      continue;
    }
    const int64_t limit = Cuts(number, client) ? options_.bytes_each : -1;
    const bool up = options_.direction == Direction::kUp;
    absl::MutexLock lock(&mutex_);
    if (closing_) {
      close(client), close(target);
      return;
    }
    Connection& connection = connections_.emplace_back();
    connection.client = client;
    connection.target = target;
    connection.up = std::thread([=, this] { Pump(client, target, up ? limit : -1); });
    connection.down = std::thread([=, this] { Pump(target, client, up ? -1 : limit); });
  }
}

void CuttingProxy::Pump(int from, int to, int64_t bytes) {
  std::vector<uint8_t> buffer(64 << 10);
  while (bytes != 0) {
    const size_t want = bytes < 0 ? buffer.size() : std::min<int64_t>(buffer.size(), bytes);
    const ssize_t got = recv(from, buffer.data(), want, 0);
    if (got <= 0 || !SendAll(to, {buffer.data(), static_cast<size_t>(got)})) break;
    if (bytes > 0) bytes -= got;
  }
  if (bytes == 0) {
    absl::SleepFor(options_.pause);
    ++cuts_;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace longhaul
