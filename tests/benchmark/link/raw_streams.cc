#include "tests/benchmark/link/raw_streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"

namespace longhaul::benchmark {
namespace {

sockaddr_in Address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  LH_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1, "an IPv4 address");
  return address;
}

void SendAll(int connection, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    LH_CHECK(sent > 0, "the sink reads");
    bytes.remove_prefix(sent);
  }
}

// Parts, each a length, its bytes and the answer of one byte, until the connection ends.
void Drain(int connection) {
  std::vector<uint8_t> buffer(1 << 20);
  uint64_t left = 0;
  while (recv(connection, &left, sizeof(left), MSG_WAITALL) == sizeof(left)) {
    while (left > 0) {
      const ssize_t got =
          recv(connection, buffer.data(), std::min<uint64_t>(left, buffer.size()), 0);
      if (got <= 0) break;
      left -= got;
    }
    if (left > 0) break;
    SendAll(connection, {buffer.data(), 1});
  }
  close(connection);
}

}  // namespace

RawSink::RawSink(const std::string& host) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Address(host, 0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LH_CHECK(bind(listener, generic, size) == 0 && listen(listener, 64) == 0, "a port to listen on");
  LH_CHECK(getsockname(listener, generic, &size) == 0, "its number");
  port_ = ntohs(address.sin_port);
  std::thread([listener] {
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;) {
      std::thread(Drain, connection).detach();
    }
  }).detach();
}

RawStreams::RawStreams(const std::string& host, int port, int connections) {
  const sockaddr_in address = Address(host, port);
  for (int i = 0; i < connections; ++i) {
    connections_.push_back(socket(AF_INET, SOCK_STREAM, 0));
    LH_CHECK(connect(connections_.back(), reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)) == 0,
             "the sink listens");
  }
}

RawStreams::~RawStreams() {
  for (const int connection : connections_) close(connection);
}

void RawStreams::Send(absl::Span<const uint8_t> bytes) {
  const size_t part = (bytes.size() + connections_.size() - 1) / connections_.size();
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < connections_.size(); ++i) {
    threads.emplace_back([connection = connections_[i], bytes = bytes.subspan(i * part, part)] {
      const uint64_t size = bytes.size();
      SendAll(connection, {reinterpret_cast<const uint8_t*>(&size), sizeof(size)});
      SendAll(connection, bytes);
      uint8_t answer = 0;
      LH_CHECK(recv(connection, &answer, 1, 0) == 1, "the sink answers");
    });
  }
}

}  // namespace longhaul::benchmark
