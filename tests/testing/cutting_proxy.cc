#include "tests/testing/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace longhaul {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool SendAll(int to, const char* data, ssize_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(to, data, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= sent;
  }
  return true;
}

}  // namespace

CuttingProxy::CuttingProxy(Options options)
    : options_(options), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LH_CHECK(bind(listener_, generic, size) == 0 && listen(listener_, 16) == 0, "a free port");
  LH_CHECK(getsockname(listener_, generic, &size) == 0, "the port's number");
  port_ = ntohs(address.sin_port);
  accept_ = std::thread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  std::list<Connection> connections;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    shutdown(listener_, SHUT_RDWR);  // Ends the accept.
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
  close(listener_);
}

std::string CuttingProxy::address() const { return "127.0.0.1:" + std::to_string(port_); }

void CuttingProxy::Accept() {
  for (int number = 0;; ++number) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const int target = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(options_.target_port);
    if (connect(target, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      close(client), close(target);  // The target is away: so is this proxy.
      --number;
      continue;
    }
    const int64_t limit = number < options_.cuts ? options_.bytes_each : -1;
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
  std::vector<char> buffer(64 << 10);
  while (bytes != 0) {
    const size_t want = bytes < 0 ? buffer.size() : std::min<int64_t>(buffer.size(), bytes);
    const ssize_t got = recv(from, buffer.data(), want, 0);
    if (got <= 0 || !SendAll(to, buffer.data(), got)) break;
    if (bytes > 0) bytes -= got;
  }
  if (bytes == 0) ++cuts_;
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace longhaul
