#include "tests/benchmark/link/raw_streams.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"
#include "tests/testing/tcp.h"

namespace longhaul::benchmark {
namespace {

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
    LH_CHECK(SendAll(connection, {buffer.data(), 1}), "the sender waits for its answer");
  }
  close(connection);
}

}  // namespace

RawSink::RawSink(const std::string& host) {
  const TcpListener listener = ListenTcp(64, host);
  port_ = listener.port;
  std::thread([listener = listener.socket] {
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;) {
      std::thread(Drain, connection).detach();
    }
  }).detach();
}

RawStreams::RawStreams(const std::string& host, int port, int connections) {
  for (int i = 0; i < connections; ++i) {
    connections_.push_back(ConnectTcp(port, host));
    LH_CHECK(connections_.back() >= 0, "the sink listens");
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
      LH_CHECK(SendAll(connection, {reinterpret_cast<const uint8_t*>(&size), sizeof(size)}) &&
                   SendAll(connection, bytes),
               "the sink reads");
      uint8_t answer = 0;
      LH_CHECK(recv(connection, &answer, 1, 0) == 1, "the sink answers");
    });
  }
}

}  // namespace longhaul::benchmark
