#include "tests/benchmark/link/stub_push.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul::benchmark {
namespace {

constexpr size_t kMessageBytes = 1 << 20;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Service : public v1::SyncService::Service {
 public:
  explicit Service(absl::Span<uint8_t> into) : into_(into) {}

  grpc::Status PushFragment(grpc::ServerContext*, grpc::ServerReader<v1::PushMessage>* reader,
                            v1::PushResponse*) override {
    size_t done = 0;
    for (v1::PushMessage message; reader->Read(&message); done += message.payload().size()) {
      LH_CHECK(message.payload().size() <= into_.size() - done, "no more than expected");
      std::memcpy(into_.data() + done, message.payload().data(), message.payload().size());
    }
    return grpc::Status::OK;
  }

 private:
  const absl::Span<uint8_t> into_;
};

}  // namespace

void ServeStub(const TlsFiles& files, absl::Span<uint8_t> into,
               const std::function<void(int port)>& on_port) {
  Service service(into);
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = Read(files.ca);
  options.pem_key_cert_pairs = {{Read(files.key), Read(files.certificate)}};
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  LH_CHECK(server != nullptr, "a port to listen on");
  on_port(port);
  server->Wait();
}

std::function<void()> ConnectStub(const TlsFiles& files, int port,
                                  absl::Span<const uint8_t> bytes) {
  const std::shared_ptr<v1::SyncService::Stub> stub = v1::SyncService::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port),
      grpc::SslCredentials({Read(files.ca), Read(files.key), Read(files.certificate)})));
  return [stub, bytes] {
    grpc::ClientContext context;
    v1::PushResponse response;
    const auto writer = stub->PushFragment(&context, &response);
    v1::PushMessage message;
    for (size_t done = 0; done < bytes.size(); done += kMessageBytes) {
      const absl::Span<const uint8_t> piece = bytes.subspan(done, kMessageBytes);
      message.set_payload(piece.data(), piece.size());
      LH_CHECK(writer->Write(message), "the server reads");
    }
    writer->WritesDone();
    LH_CHECK(writer->Finish().ok(), "the server answers");
  };
}

}  // namespace longhaul::benchmark
