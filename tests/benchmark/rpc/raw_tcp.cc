#include "tests/benchmark/rpc/raw_tcp.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace longhaul {

RawTcpListener::RawTcpListener() : listener_(ListenTcp(1)) {}

RawTcpListener::~RawTcpListener() { close(listener_.socket); }

bool RawTcpListener::ReceiveOver(absl::Span<uint8_t> buffer, int64_t bytes) {
  const int connection = accept(listener_.socket, nullptr, nullptr);
  absl::Span<uint8_t> into = buffer;
  while (bytes > 0) {
    const ssize_t got = recv(connection, into.data(), std::min<int64_t>(into.size(), bytes), 0);
    if (got <= 0) break;
    bytes -= got;
    into.remove_prefix(got);
    if (into.empty()) into = buffer;
  }
  const uint8_t answer = 1;
  const bool done = bytes == 0 && send(connection, &answer, 1, MSG_NOSIGNAL) == 1;
  close(connection);
  return done;
}

bool SendRaw(int port, absl::Span<const uint8_t> bytes, int times) {
  const int connection = ConnectTcp(port);
  if (connection < 0) return false;
  bool open = true;
  for (int i = 0; open && i < times; ++i) open = SendAll(connection, bytes);
  uint8_t answer = 0;
  open = open && recv(connection, &answer, 1, 0) == 1;
  close(connection);
  return open;
}

}  // namespace longhaul
