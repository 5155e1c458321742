#include "tests/benchmark/link/raw_tls.h"

#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/rpc/openssl_ptr.h"
#include "openssl/ssl.h"
#include "tests/testing/tcp.h"

namespace longhaul::benchmark {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

// A connection and what it is made of.
struct Stream {
  OpensslPtr<SSL_CTX, SSL_CTX_free> context;
  OpensslPtr<SSL, SSL_free> ssl;
};

Stream MakeStream(const TlsFiles& files, const SSL_METHOD* method, int connection) {
  Stream stream;
  stream.context.reset(SSL_CTX_new(method));
  SSL_CTX* context = stream.context.get();
  LH_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_load_verify_file(context, files.ca.c_str()) == 1 &&
               SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) == 1 &&
               SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1,
           "the benchmark's certificates");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  stream.ssl.reset(SSL_new(context));
  SSL_set_fd(stream.ssl.get(), connection);
  return stream;
}

}  // namespace

void ServeRawTls(const TlsFiles& files, absl::Span<uint8_t> into,
                 const std::function<void(int port)>& on_port) {
  const TcpListener listener = ListenTcp(1);
  on_port(listener.port);
  const Stream stream =
      MakeStream(files, TLS_server_method(), accept(listener.socket, nullptr, nullptr));
  LH_CHECK(SSL_accept(stream.ssl.get()) == 1, "a handshake");
  for (size_t done = 0;;) {
    size_t got = 0;
    if (SSL_read_ex(stream.ssl.get(), into.data() + done, into.size() - done, &got) != 1) return;
    done += got;
    if (done < into.size()) continue;
    done = 0;
    LH_CHECK(SSL_write(stream.ssl.get(), "\1", 1) == 1, "the client waits for an answer");
  }
}

std::function<void()> ConnectRawTls(const TlsFiles& files, int port,
                                    absl::Span<const uint8_t> bytes) {
  const int connection = ConnectTcp(port);
  LH_CHECK(connection >= 0, "the server listens");
  const auto stream = std::make_shared<Stream>(MakeStream(files, TLS_client_method(), connection));
  LH_CHECK(SSL_connect(stream->ssl.get()) == 1, "a handshake");
  return [stream, bytes] {
    for (size_t done = 0; done < bytes.size(); done += kWriteBytes) {
      const absl::Span<const uint8_t> piece = bytes.subspan(done, kWriteBytes);
      size_t sent = 0;
      LH_CHECK(SSL_write_ex(stream->ssl.get(), piece.data(), piece.size(), &sent) == 1 &&
                   sent == piece.size(),
               "the server reads");
    }
    char answer = 0;
    LH_CHECK(SSL_read(stream->ssl.get(), &answer, 1) == 1, "the server answers");
  };
}

}  // namespace longhaul::benchmark
