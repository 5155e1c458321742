#include "tests/testing/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/check.h"

namespace longhaul {
namespace {

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  LH_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1, "an IPv4 address");
  return address;
}

}  // namespace

TcpListener ListenTcp(int backlog, const std::string& host) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = AddressOf(host, 0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  LH_CHECK(bind(listener, generic, size) == 0 && listen(listener, backlog) == 0,
           "a port to listen on");
  LH_CHECK(getsockname(listener, generic, &size) == 0, "its number");
  return {listener, ntohs(address.sin_port)};
}

int ConnectTcp(int port, const std::string& host) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = AddressOf(host, port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return connection;
  }
  close(connection);
  return -1;
}

bool SendAll(int connection, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(sent);
  }
  return true;
}

std::string HttpAsk(int port, const std::string& method, const std::string& path,
                    const std::string& authorization, const std::string& host) {
  const int connection = ConnectTcp(port);
  if (connection < 0) return "";
  std::string request = method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n";
  if (!authorization.empty()) request += "Authorization: " + authorization + "\r\n";
  request += "\r\n";
  std::string answer;
  if (SendAll(connection, {reinterpret_cast<const uint8_t*>(request.data()), request.size()})) {
    char buffer[4096];
    for (ssize_t n; (n = recv(connection, buffer, sizeof(buffer), 0)) > 0;)
      answer.append(buffer, n);
  }
  close(connection);
  return answer;
}

std::string HttpGet(int port, const std::string& path, const std::string& authorization) {
  return HttpAsk(port, "GET", path, authorization);
}

}  // namespace longhaul
