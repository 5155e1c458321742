#include "common/rpc/tls_probe.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/base/host_port.h"
#include "common/base/resolved_address.h"
#include "common/base/status_macros.h"
#include "common/rpc/pem_file.h"
#include "common/rpc/proxy.h"

namespace longhaul {
namespace {

// The first bytes of an answer. A TLS record is a handshake or an alert of version 3. HTTP/2 begins
// with a frame of settings, whose type is the fourth byte.
constexpr uint8_t kTlsAlert = 21, kTlsHandshake = 22, kTlsMajor = 3, kHttp2Settings = 4;

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

// The first message of a TLS client.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(context ? SSL_new(context.get()) : nullptr,
                                                      SSL_free);
  if (ssl == nullptr) return "";
  BIO* out = BIO_new(BIO_s_mem());
  // Afterwards `ssl` owns both.
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  SSL_set_connect_state(ssl.get());
  // It waits for an answer, which does not come.
  (void)SSL_do_handshake(ssl.get());
  return ContentOf(out);
}

absl::Status Await(int fd, int16_t events, absl::Time deadline) {
  pollfd entry = {fd, events, 0};
  const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - SteadyTime()));
  const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
  if (ready > 0) return absl::OkStatus();
  if (ready < 0 && errno == EINTR) return Await(fd, events, deadline);
  return absl::DeadlineExceededError("no answer to a probe");
}

absl::Status Connect(const addrinfo& to, absl::Time deadline, Socket& socket) {
  socket.fd = ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket.fd < 0) return absl::UnavailableError("no socket for a probe");
  if (connect(socket.fd, to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError("no server listens there");
  }
  LH_RETURN_IF_ERROR(Await(socket.fd, POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return absl::UnavailableError("no server listens there");
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

// Connects to one of the addresses of HOST:PORT. `host` receives the name.
absl::Status DialDirectly(const std::string& address, absl::Time deadline, Socket& socket,
                          std::string& host) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return absl::UnavailableError(parsed.status().message());
  host = parsed->host;
  const absl::StatusOr<ResolvedAddress> found = Resolve(*parsed);
  if (!found.ok()) return absl::UnavailableError(absl::StrCat("the name ", host, " is not known"));
  int left = 0;
  for (const addrinfo* to = found->get(); to != nullptr; to = to->ai_next) ++left;
  absl::Status status = absl::UnavailableError("no server listens there");
  for (const addrinfo* to = found->get(); to != nullptr; to = to->ai_next, --left) {
    if (socket.fd >= 0) close(socket.fd);
    // One that does not answer leaves time for those after it.
    const absl::Time now = SteadyTime();
    status = Connect(*to, now + (deadline - now) / left, socket);
    if (status.ok()) break;
  }
  return status;
}

// The most that a proxy says before the tunnel is there.
constexpr size_t kProxyAnswerMax = 16 << 10;

// Asks the proxy at the other end for a tunnel to `address`. Afterwards the connection is that of
// the server. UNAVAILABLE: it makes none.
absl::Status MakeTunnel(const std::string& address, const ProxyChoice& proxy, absl::Time deadline,
                        int fd) {
  std::string request = absl::StrCat("CONNECT ", address, " HTTP/1.1\r\nHost: ", address, "\r\n");
  if (!proxy.credentials.empty()) {
    absl::StrAppend(&request, "Proxy-Authorization: Basic ", absl::Base64Escape(proxy.credentials),
                    "\r\n");
  }
  request += "\r\n";
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return absl::UnavailableError("a probe was not taken");
  std::string answer;
  // What follows the head is the server's.
  while (!absl::EndsWith(answer, "\r\n\r\n")) {
    LH_RETURN_IF_ERROR(Await(fd, POLLIN, deadline));
    char byte;
    const ssize_t n = recv(fd, &byte, 1, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0 || answer.size() == kProxyAnswerMax)
      return absl::UnavailableError(absl::StrCat("the proxy ", proxy.address, " gives no answer"));
    answer.push_back(byte);
  }
  const std::vector<absl::string_view> words = absl::StrSplit(
      absl::string_view(answer).substr(0, answer.find('\r')), absl::MaxSplits(' ', 2));
  if (words.size() >= 2 && words[1].size() == 3 && words[1][0] == '2') return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the proxy ", proxy.address, " makes no tunnel"));
}

// Connects to the server at HOST:PORT as a channel does: through a proxy, if the environment names
// one. `host` receives the server's name.
absl::Status Dial(const std::string& address, absl::Time deadline, Socket& socket,
                  std::string& host) {
  const ProxyChoice proxy = ProxyOf(address).value_or(ProxyChoice());
  if (proxy.address.empty()) return DialDirectly(address, deadline, socket, host);
  LH_RETURN_IF_ERROR(DialDirectly(proxy.address, deadline, socket, host));
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return absl::UnavailableError(parsed.status().message());
  host = parsed->host;
  return MakeTunnel(address, proxy, deadline, socket.fd);
}

// How long to wait for a server that does not accept this side's certificate: with TLS 1.3 it says
// so only after the handshake.
constexpr absl::Duration kVerdict = absl::Seconds(1);

// While it exists, a write of this thread to a connection that has ended is only an error. OpenSSL
// writes without MSG_NOSIGNAL.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    // Takes the signal, if there was one.
    const timespec now = {};
    while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
};

class Handshake {
 public:
  Handshake(const TlsFiles& files, const std::string& host, int fd)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), files_(files) {
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_file(context_.get(), files.ca.c_str());
    if (!files.certificate.empty()) {
      SSL_CTX_use_certificate_chain_file(context_.get(), files.certificate.c_str());
      SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), SSL_FILETYPE_PEM);
    }
    ssl_.reset(SSL_new(context_.get()));
    // As in gRPC, the name may be an address.
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) != 1) {
      SSL_set1_host(ssl_.get(), host.c_str());
    }
    SSL_set_tlsext_host_name(ssl_.get(), host.c_str());
    constexpr std::array<uint8_t, 3> kHttp2 = {2, 'h', '2'};
    SSL_set_alpn_protos(ssl_.get(), kHttp2.data(), kHttp2.size());
    SSL_set_fd(ssl_.get(), fd);
  }

  absl::Status Run(absl::Time deadline) {
    const NoSigpipe no_sigpipe;
    absl::Status status = Repeat([this] { return SSL_connect(ssl_.get()); }, deadline);
    if (const int64_t wrong = SSL_get_verify_result(ssl_.get()); wrong != X509_V_OK) {
      return absl::FailedPreconditionError(WrongServer(wrong));
    }
    if (status.ok()) {
      char byte;
      status = Repeat([&] { return SSL_read(ssl_.get(), &byte, 1); },
                      std::min(deadline, SteadyTime() + kVerdict));
      // A server that closes the connection resets it if what came last was not read.
      if (absl::IsUnavailable(status)) status = absl::FailedPreconditionError(status.message());
    }
    // Nothing was found.
    if (!absl::IsFailedPrecondition(status)) return absl::OkStatus();
    if (files_.certificate.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the server does not accept a client without a certificate, also with a token (",
          status.message(),
          "): give --tls-certificate and --tls-key, with a certificate from its operator (longhaul "
          "certs issue user NAME)"));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the server does not accept --tls-certificate ", files_.certificate, ": ", status.message(),
        ". It must come from an authority of the server's --tls-ca, and be valid by the server's "
        "clock"));
  }

 private:
  // FAILED_PRECONDITION describes an alert.
  template <typename Call>
  absl::Status Repeat(Call call, absl::Time deadline) {
    for (;;) {
      ERR_clear_error();
      const int result = call();
      if (result > 0) return absl::OkStatus();
      const int error = SSL_get_error(ssl_.get(), result);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
        ERR_clear_error();
        if (error == SSL_ERROR_SSL && reason != nullptr)
          return absl::FailedPreconditionError(reason);
        return absl::UnavailableError("the connection ended");
      }
      LH_RETURN_IF_ERROR(
          Await(SSL_get_fd(ssl_.get()), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline));
    }
  }

  std::string WrongServer(int64_t verdict) const {
    std::string next = "";
    switch (verdict) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
      case X509_V_ERR_CERT_NOT_YET_VALID:
        next = "issue a new one for the server, or correct this machine's clock";
        break;
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        next = "connect with a name of the certificate, or issue one for this name";
        break;
      default:
        next = absl::StrCat("--tls-ca ", files_.ca, " must contain the authority that signed it");
    }
    return absl::StrCat("the server's certificate is not accepted: ",
                        X509_verify_cert_error_string(verdict), "; ", next);
  }

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  const TlsFiles files_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

}  // namespace

absl::StatusOr<bool> SpeaksTls(const std::string& address, absl::Time deadline) {
  Socket socket;
  std::string host;
  LH_RETURN_IF_ERROR(Dial(address, deadline, socket, host));
  return Ask(socket.fd, deadline);
}

absl::Status ExplainConnection(const std::string& address, const TlsFiles& files,
                               absl::Time deadline) {
  const absl::StatusOr<bool> tls = SpeaksTls(address, deadline);
  if (!tls.ok()) return absl::OkStatus();
  if (files.empty() && *tls) {
    return absl::FailedPreconditionError(
        absl::StrCat(address,
                     " requires TLS: give --tls-ca, --tls-certificate and --tls-key, and "
                     "--token-file if it requires a token"));
  }
  if (!files.empty() && !*tls) {
    return absl::FailedPreconditionError(absl::StrCat(
        address,
        " uses plaintext: omit --tls-ca, --tls-certificate and --tls-key, or start it with TLS"));
  }
  if (files.empty()) return absl::OkStatus();
  Socket socket;
  std::string host;
  if (!Dial(address, deadline, socket, host).ok()) return absl::OkStatus();
  return Handshake(files, host, socket.fd).Run(deadline);
}

}  // namespace longhaul
