// Mutual TLS over real connections: which peers are accepted, which are not, and what happens if
// files or servers are replaced.
#include "common/rpc/tls.h"

#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/openssl_ptr.h"
#include "common/rpc/pem_file.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/tls_probe.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "openssl/ssl.h"
#include "tests/testing/certificates.h"
#include "tests/testing/tcp.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/common/rpc/bulk_testing.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

constexpr char kLocal[] = "DNS:localhost,IP:127.0.0.1";
constexpr int64_t kTlsElements = 300'001;

class AnsweringPools : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest*,
                                      v1::HeartbeatResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

absl::Status Heartbeat(const std::shared_ptr<grpc::Channel>& channel, bool wait = false) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  context.set_wait_for_ready(wait);
  v1::HeartbeatResponse response;
  return FromGrpcStatus(v1::PoolService::NewStub(channel)->Heartbeat(&context, {}, &response));
}

class TlsTest : public ::testing::Test {
 protected:
  // Each identity has its own folder.
  std::shared_ptr<const Tls> Load(const TestAuthority& trusted, const Identity& identity) {
    const std::string folder = folder_.Join(absl::StrCat(folders_++));
    std::filesystem::create_directory(folder);
    files_ = WriteTlsFiles(folder, trusted.certificate(), identity);
    auto tls = Tls::Load(files_, {.refresh = absl::Seconds(1), .log = log_});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }
  void Serve(std::shared_ptr<const Tls> tls, const std::string& address = "127.0.0.1:0") {
    auto server = Server::Start({.address = address, .tls = std::move(tls)}, {&pools_, &sync_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<grpc::Channel> Dial(std::shared_ptr<const Tls> tls,
                                      ChannelKind kind = ChannelKind::kControl) {
    return MakeChannel({.address = server_->address(), .kind = kind, .tls = std::move(tls)});
  }

  const TestAuthority ours_{"ours"}, theirs_{"theirs"};
  const TempDir folder_;
  int folders_ = 0;
  // Written by the threads that look at files, before they say that they refuse them.
  std::ostringstream said_;
  const Logger log_{{.stream = &said_}};
  // The files of the last Load.
  TlsFiles files_;
  Executor executor_{{.threads = 1}};
  StreamAdmission admission_{{}};
  AnsweringPools pools_;
  TestSyncService sync_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, AProbeTellsTlsFromPlaintext) {
  const absl::Time deadline = SteadyTime() + absl::Seconds(60);
  Serve(Load(ours_, ours_.Issue("coordinator", kLocal)));
  auto tls = SpeaksTls(server_->address(), deadline);
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_TRUE(*tls);
  Serve(nullptr);
  tls = SpeaksTls(server_->address(), deadline);
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_FALSE(*tls);
  const std::string address = server_->address();
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(SpeaksTls(address, deadline).status()));
}

TEST_F(TlsTest, AProbeOfASilentServerEnds) {
  const TcpListener silent = ListenTcp(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      SpeaksTls(absl::StrCat(kLoopback, ":", silent.port), SteadyTime() + absl::Milliseconds(50))
          .status()));
  close(silent.socket);
}

TEST_F(TlsTest, AConnectionThatIsNotMadeIsExplained) {
  const auto explain = [&](const TlsFiles& files) {
    return std::string(
        ExplainConnection(server_->address(), files, SteadyTime() + absl::Seconds(60)).message());
  };
  Serve(Load(ours_, ours_.Issue("elsewhere", "DNS:elsewhere.example.org")));
  Load(ours_, ours_.Issue("client", "DNS:client"));
  const TlsFiles ours = files_;
  EXPECT_THAT(explain(ours), HasSubstr("connect with a name of the certificate"));
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  EXPECT_EQ(explain(ours), "");
  Load(theirs_, ours_.Issue("client", "DNS:client"));
  EXPECT_THAT(explain(files_), HasSubstr("must contain the authority that signed it"));
  Load(ours_, theirs_.Issue("client", "DNS:client"));
  EXPECT_THAT(explain(files_), HasSubstr("does not accept --tls-certificate"));
  EXPECT_THAT(explain({.ca = ours.ca}), HasSubstr("a client without a certificate"));
  EXPECT_THAT(explain({.ca = ours.ca}), HasSubstr("give --tls-certificate and --tls-key"));
  EXPECT_THAT(explain({.ca = ours.ca}), HasSubstr("longhaul certs issue user"));
  EXPECT_THAT(explain({}), HasSubstr("requires TLS"));
  Serve(nullptr);
  EXPECT_THAT(explain(ours), HasSubstr("uses plaintext"));
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_EQ(explain(ours), "");
}

// Accepts connections of TLS, one after the other, and closes each once it has sent the server's
// part of the handshake.
class ClosingServer {
 public:
  explicit ClosingServer(const TlsFiles& files) : files_(files) {}
  ~ClosingServer() {
    shutdown(listener_.socket, SHUT_RDWR);
    thread_.join();
    close(listener_.socket);
  }
  std::string address() const { return absl::StrCat(kLoopback, ":", listener_.port); }

 private:
  void Run() {
    for (int connection; (connection = accept(listener_.socket, nullptr, nullptr)) >= 0;) {
      Greet(connection);
      close(connection);
    }
  }
  void Greet(int connection) {
    const OpensslPtr<SSL_CTX, SSL_CTX_free> context(SSL_CTX_new(TLS_server_method()));
    SSL_CTX_use_certificate_chain_file(context.get(), files_.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files_.key.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    const OpensslPtr<SSL, SSL_free> ssl(SSL_new(context.get()));
    // Afterwards `ssl` owns both.
    BIO *const in = BIO_new(BIO_s_mem()), *const out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl.get(), in, out);
    uint8_t hello[16384];
    const ssize_t n = recv(connection, hello, sizeof(hello), 0);
    if (n <= 0) return;
    BIO_write(in, hello, static_cast<int>(n));
    (void)SSL_accept(ssl.get());
    const std::string answer = longhaul::ContentOf(out);
    (void)!send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  const TlsFiles files_;
  const TcpListener listener_ = ListenTcp(4);
  std::thread thread_{[this] { Run(); }};
};

// As a coordinator that goes down meanwhile. OpenSSL's next write would end a program without a
// word (SIGPIPE). It is told as a certificate that is not accepted, since gRPC's servers close the
// connection then, too.
TEST_F(TlsTest, AConnectionThatEndsAmidAHandshakeIsOnlyAnError) {
  Load(ours_, ours_.Issue("server", kLocal));
  const ClosingServer server(files_);
  Load(ours_, ours_.Issue("client", "DNS:client"));
  const absl::Status found =
      ExplainConnection(server.address(), files_, SteadyTime() + absl::Seconds(60));
  EXPECT_THAT(std::string(found.message()), HasSubstr("does not accept --tls-certificate"));
}

TEST_F(TlsTest, CarriesHeartbeatsAndPushes) {
  const auto fragment = MakeFragment(kTlsElements);
  sync_.resources = {.executor = &executor_, .admission = &admission_};
  sync_.push.on_header = [](const v1::PushHeader&) {
    return StreamLimits{kTlsElements, 4 * kTlsElements, FourBytesEach};
  };
  ReceivedBlocks received;
  sync_.push.on_chunk = [&](const v1::PushHeader&, const CodedChunk& chunk) {
    received.Add(chunk);
    return absl::OkStatus();
  };
  sync_.push.on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); };
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  const auto client = Load(ours_, ours_.Issue("client", "DNS:client"));
  EXPECT_EQ(Heartbeat(Dial(client)), absl::OkStatus());
  const auto bulk = Dial(client, ChannelKind::kBulk);
  const auto pushed = PushBlocks({&bulk, 1}, {}, SourceOf(fragment, FourBytesEach),
                                 {.deadline = SteadyTime() + absl::Seconds(60)});
  EXPECT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(SameBlocks(std::move(received).Blocks(), *fragment));
}

TEST_F(TlsTest, ServesOtherMachinesWithoutAFlag) {
  Serve(Load(ours_, ours_.Issue("server", kLocal)), "0.0.0.0:0");
  const auto channel = MakeChannel({.address = absl::StrCat("localhost:", server_->port()),
                                    .tls = Load(ours_, ours_.Issue("client", kLocal))});
  EXPECT_EQ(Heartbeat(channel), absl::OkStatus());
}

TEST_F(TlsTest, RefusesAClientOfAnotherAuthority) {
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(Dial(Load(ours_, theirs_.Issue("client", kLocal))))));
}

TEST_F(TlsTest, RefusesAClientWithoutCertificate) {
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(Dial(nullptr)))) << "in plaintext";
  const auto anonymous = grpc::CreateChannel(
      server_->address(), grpc::SslCredentials({.pem_root_certs = ours_.certificate()}));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(anonymous)));
}

TEST_F(TlsTest, RefusesAServerOfAnotherAuthority) {
  Serve(Load(ours_, theirs_.Issue("server", kLocal)));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(Dial(Load(ours_, ours_.Issue("client", kLocal))))));
}

TEST_F(TlsTest, RefusesTheCertificateOfAnotherHost) {
  Serve(Load(ours_, ours_.Issue("server", "DNS:elsewhere.example,IP:127.0.0.2")));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(Dial(Load(ours_, ours_.Issue("client", kLocal))))));
}

TEST_F(TlsTest, ReconnectsToARestartedServer) {
  const auto tls = Load(ours_, ours_.Issue("server", kLocal));
  Serve(tls);
  const auto channel = Dial(Load(ours_, ours_.Issue("client", kLocal)));
  EXPECT_EQ(Heartbeat(channel), absl::OkStatus());
  const std::string address = server_->address();
  server_.reset();
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(channel)));
  Serve(tls, address);
  EXPECT_EQ(Heartbeat(channel, /*wait=*/true), absl::OkStatus());
}

TEST_F(TlsTest, TakesNewFilesWithoutARestart) {
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  const std::string folder = std::filesystem::path(files_.ca).parent_path();
  const auto newcomer = Dial(Load(theirs_, theirs_.Issue("client", kLocal)));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(newcomer)));
  WriteTlsFiles(folder, theirs_.certificate(), theirs_.Issue("server", kLocal));
  // Tries again until the server has read its files.
  EXPECT_EQ(Heartbeat(newcomer, /*wait=*/true), absl::OkStatus());
}

TEST_F(TlsTest, GoesOnWithTheLastGoodFiles) {
  const auto server = Load(ours_, ours_.Issue("server", kLocal));
  Serve(server);
  const std::string folder = std::filesystem::path(files_.ca).parent_path();
  const auto client = Load(ours_, ours_.Issue("client", kLocal));
  const auto open = Dial(client);
  EXPECT_EQ(Heartbeat(open), absl::OkStatus());
  Identity mixed = ours_.Issue("server", kLocal);
  mixed.key = ours_.Issue("server", kLocal).key;
  WriteTlsFiles(folder, ours_.certificate(), mixed);
  while (!server->files().refused()) absl::SleepFor(absl::Milliseconds(10));
  // Longer than gRPC takes to look at what it was given.
  const absl::Time end = SteadyTime() + absl::Seconds(3);
  while (SteadyTime() < end) ASSERT_EQ(Heartbeat(Dial(client)), absl::OkStatus());
  EXPECT_EQ(Heartbeat(open), absl::OkStatus());
  EXPECT_THAT(said_.str(), HasSubstr("is not the key of --tls-certificate"));
  WriteTlsFiles(folder, theirs_.certificate(), theirs_.Issue("server", kLocal));
  const auto next = Dial(Load(theirs_, theirs_.Issue("client", kLocal)));
  EXPECT_EQ(Heartbeat(next, /*wait=*/true), absl::OkStatus());
  EXPECT_FALSE(server->files().refused());
}

TEST_F(TlsTest, IsKeptByItsChannelsAndServers) {
  std::weak_ptr<const Tls> of_server, of_client;
  std::shared_ptr<grpc::Channel> channel;
  {
    const auto tls = Load(ours_, ours_.Issue("server", kLocal));
    of_server = tls;
    Serve(tls);
  }
  {
    const auto tls = Load(ours_, ours_.Issue("client", kLocal));
    of_client = tls;
    channel = Dial(tls);
  }
  EXPECT_EQ(Heartbeat(channel), absl::OkStatus());
  EXPECT_FALSE(of_server.expired() || of_client.expired());
  channel.reset();
  server_.reset();
  EXPECT_TRUE(of_server.expired() && of_client.expired());
}

TEST_F(TlsTest, AClientTakesNewFilesToo) {
  Serve(Load(theirs_, theirs_.Issue("server", kLocal)));
  const auto channel = Dial(Load(ours_, ours_.Issue("client", kLocal)));
  EXPECT_TRUE(absl::IsUnavailable(Heartbeat(channel)));
  WriteTlsFiles(std::filesystem::path(files_.ca).parent_path(), theirs_.certificate(),
                theirs_.Issue("client", kLocal));
  EXPECT_EQ(Heartbeat(channel, /*wait=*/true), absl::OkStatus());
}

// The protocol on which OpenSSL's own client and our server agree, for example "TLSv1.3".
std::string ProtocolOf(int port, const TlsFiles& files) {
  const OpensslPtr<SSL_CTX, SSL_CTX_free> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_load_verify_file(context.get(), files.ca.c_str());
  SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str());
  SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  const std::string http2 = "\x02h2";
  SSL_CTX_set_alpn_protos(context.get(), reinterpret_cast<const unsigned char*>(http2.data()),
                          http2.size());
  const int connection = ConnectTcp(port);
  const OpensslPtr<SSL, SSL_free> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), connection);
  EXPECT_EQ(SSL_connect(ssl.get()), 1);
  const std::string version = SSL_get_version(ssl.get());
  close(connection);
  return version;
}

TEST_F(TlsTest, SpeaksTls13) {
  Serve(Load(ours_, ours_.Issue("server", kLocal)));
  Load(ours_, ours_.Issue("client", kLocal));
  EXPECT_EQ(ProtocolOf(server_->port(), files_), "TLSv1.3");
}

TEST(LoadTlsIfGivenTest, IsNullWithoutFilesAndAnErrorWithHalfOfThem) {
  EXPECT_EQ(LoadTlsIfGiven({}).value(), nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(LoadTlsIfGiven({.key = "key.pem"}).status()));
}

}  // namespace
}  // namespace longhaul
