#include "common/rpc/tls_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// The first bytes of an answer: a TLS record is a handshake or an alert of version 3; HTTP/2 begins
// with a frame of settings, whose type is the fourth byte.
constexpr uint8_t kTlsAlert = 21, kTlsHandshake = 22, kTlsMajor = 3, kHttp2Settings = 4;

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

// The first flight of a TLS client.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(context ? SSL_new(context.get()) : nullptr,
                                                      SSL_free);
  if (ssl == nullptr) return "";
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);  // Both belong to it now.
  SSL_set_connect_state(ssl.get());
  (void)SSL_do_handshake(ssl.get());  // Wants an answer, which it does not get.
  char* bytes = nullptr;
  const int64_t size = BIO_get_mem_data(out, &bytes);
  return std::string(bytes, std::max<int64_t>(size, 0));
}

absl::Status Await(int fd, int16_t events, absl::Time deadline) {
  pollfd entry = {fd, events, 0};
  const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()));
  const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
  if (ready > 0) return absl::OkStatus();
  if (ready < 0 && errno == EINTR) return Await(fd, events, deadline);
  return absl::DeadlineExceededError("no answer to a probe");
}

absl::Status Connect(const addrinfo& to, absl::Time deadline, Socket& socket) {
  socket.fd = ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket.fd < 0) return absl::UnavailableError("no socket for a probe");
  if (connect(socket.fd, to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError("nobody listens there");
  }
  LH_RETURN_IF_ERROR(Await(socket.fd, POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return absl::UnavailableError("nobody listens there");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Ask(int fd, absl::Time deadline) {
  const std::string hello = ClientHello();
  if (send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    return absl::UnavailableError("a probe was not taken");
  }
  std::array<uint8_t, 9> answer = {};
  for (size_t here = 0; here < answer.size();) {
    LH_RETURN_IF_ERROR(Await(fd, POLLIN, deadline));
    const ssize_t n = recv(fd, answer.data() + here, answer.size() - here, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) break;
    here += n;
    if (here >= 2 && (answer[0] == kTlsHandshake || answer[0] == kTlsAlert) &&
        answer[1] == kTlsMajor) {
      return true;
    }
  }
  if (answer[0] == 0 && answer[3] == kHttp2Settings) return false;
  return absl::UnknownError("the answer to a probe is neither TLS nor HTTP/2");
}

}  // namespace

absl::StatusOr<bool> SpeaksTls(const std::string& address, absl::Time deadline) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError(address + " is not HOST:PORT");
  absl::string_view host(address.data(), colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    return absl::UnavailableError(absl::StrCat("the name ", host, " is not known"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  absl::Status status = absl::UnavailableError("nobody listens there");
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    Socket socket;
    status = Connect(*to, deadline, socket);
    if (status.ok()) return Ask(socket.fd, deadline);
  }
  return status;
}

}  // namespace longhaul
