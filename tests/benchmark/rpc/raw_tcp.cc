#include "tests/benchmark/rpc/raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

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

}  // namespace

RawTcpListener::RawTcpListener() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LH_CHECK(bind(socket_, generic, size) == 0 && listen(socket_, 1) == 0, "a port of this machine");
  LH_CHECK(getsockname(socket_, generic, &size) == 0, "the port's number");
  port_ = ntohs(address.sin_port);
}

RawTcpListener::~RawTcpListener() { close(socket_); }

bool RawTcpListener::ReceiveOver(absl::Span<uint8_t> buffer, int64_t bytes) {
  const int connection = accept(socket_, nullptr, nullptr);
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
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = Loopback(port);
  bool open =
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  for (int i = 0; open && i < times; ++i) {
    absl::Span<const uint8_t> left = bytes;
    while (open && !left.empty()) {
      const ssize_t sent = send(connection, left.data(), left.size(), MSG_NOSIGNAL);
      open = sent > 0;
      if (open) left.remove_prefix(sent);
    }
  }
  uint8_t answer = 0;
  open = open && recv(connection, &answer, 1, 0) == 1;
  close(connection);
  return open;
}

}  // namespace longhaul
