// HTTP over TLS, with OpenSSL as the client.
#include <openssl/ssl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tcp.h"

namespace longhaul {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

// The whole answer to a GET, and the name in the certificate that the server shows.
std::pair<std::string, std::string> HttpsGet(int port, const std::string& path) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  const int connection = ConnectTcp(port);
  SSL_set_fd(ssl.get(), connection);
  std::string answer, name(256, '\0');
  if (SSL_connect(ssl.get()) == 1) {
    X509* const shown = SSL_get0_peer_certificate(ssl.get());
    name.resize(std::max(0, X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName,
                                                      name.data(), 256)));
    const std::string request = "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n";
    SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    char bytes[4096];
    for (int n; (n = SSL_read(ssl.get(), bytes, sizeof(bytes))) > 0;) answer.append(bytes, n);
  } else {
    name.clear();
  }
  close(connection);
  return {answer, name};
}

TEST(HttpTlsTest, ShowsTheIdentityOfTheMoment) {
  const TestAuthority authority("ours");
  absl::Mutex mutex;
  HttpIdentity identity;
  const auto use = [&](const std::string& name) {
    const Identity issued = authority.Issue(name, "DNS:localhost");
    absl::MutexLock lock(&mutex);
    identity = {issued.certificate + authority.certificate(), issued.key};
  };
  use("first");
  Pages pages;
  pages.Add("/page", [](const PageRequest&) { return Page{.body = "hello"}; });
  AddProbes(pages, [] { return absl::OkStatus(); });
  HttpServer::Options options;
  options.identity = [&] {
    absl::MutexLock lock(&mutex);
    return identity;
  };
  const auto server = HttpServer::Start(options, std::move(pages)).value();
  const auto [page, name] = HttpsGet(server->port(), "/page");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, EndsWith("\r\n\r\nhello"));
  EXPECT_EQ(name, "first");
  use("second");
  EXPECT_EQ(HttpsGet(server->port(), "/healthz").second, "second");
  // Half a file shows nobody something wrong.
  {
    absl::MutexLock lock(&mutex);
    identity.key = "nonsense";
  }
  EXPECT_EQ(HttpsGet(server->port(), "/page").first, "");
  use("third");
  EXPECT_THAT(HttpsGet(server->port(), "/page").first, EndsWith("hello"));
  // Plaintext is not answered.
  EXPECT_EQ(HttpGet(server->port(), "/page"), "");
}

}  // namespace
}  // namespace longhaul
