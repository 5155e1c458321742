#include "common/rpc/call_limit.h"

#include <string>
#include <utility>

#include "grpc/grpc_security.h"

namespace longhaul {

using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

namespace {

// A client may try again: as where no server is.
constexpr char kTooManyCalls[] = "the server handles as many calls as it can: try again";

class LimitedDoor : public grpc::AuthMetadataProcessor {
 public:
  LimitedDoor(CallLimit* limit, std::shared_ptr<grpc::AuthMetadataProcessor> door,
              KnowsCaller knows)
      : limit_(limit), door_(std::move(door)), knows_(std::move(knows)) {}

  // On the thread that reads the connection, so that no call is queued before.
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* connection,
                       OutputMetadata* consumed, OutputMetadata* response) override {
    const bool known = !knows_ || knows_(metadata, *connection);
    if (!limit_->Enter(known)) return {grpc::StatusCode::UNAVAILABLE, kTooManyCalls};
    if (door_ == nullptr) return grpc::Status::OK;
    grpc::Status judged = door_->Process(metadata, connection, consumed, response);
    if (!judged.ok()) limit_->Leave();
    return judged;
  }

 private:
  CallLimit* const limit_;
  const std::shared_ptr<grpc::AuthMetadataProcessor> door_;
  const KnowsCaller knows_;
};

// grpc::InsecureServerCredentials asks no processor.
class LimitedPlaintext : public grpc::ServerCredentials {
 public:
  explicit LimitedPlaintext(CallLimit* limit) : limit_(limit) {}
  // Callers cannot be known in plaintext.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  static void Process(void* limit, grpc_auth_context*, const grpc_metadata*, size_t,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    const bool enters = static_cast<CallLimit*>(limit)->Enter();
    done(call, nullptr, 0, nullptr, 0, enters ? GRPC_STATUS_OK : GRPC_STATUS_UNAVAILABLE,
         enters ? nullptr : kTooManyCalls);
  }
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* const plaintext = grpc_insecure_server_credentials_create();
    grpc_server_credentials_set_auth_metadata_processor(plaintext, {&Process, nullptr, limit_});
    const int port = grpc_server_add_http2_port(server, address.c_str(), plaintext);
    grpc_server_credentials_release(plaintext);
    return port;
  }

  CallLimit* const limit_;
};

}  // namespace

// gRPC destroys it with the call.
class CallLimit::Held : public grpc::experimental::Interceptor {
 public:
  explicit Held(CallLimit* limit) : limit_(limit) {}
  ~Held() override { limit_->Leave(); }
  void Intercept(InterceptorBatchMethods* batch) override { batch->Proceed(); }

 private:
  CallLimit* const limit_;
};

class CallLimit::Counter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Counter(CallLimit* limit) : limit_(limit) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo*) override {
    return new Held(limit_);
  }

 private:
  CallLimit* const limit_;
};

bool CallLimit::Enter(bool known) {
  ++came_;
  if (++held_ <= (known ? calls_max_ : calls_max_ / 4)) return true;
  --held_;
  return false;
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallLimit::MakeCounter() {
  return std::make_unique<Counter>(this);
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeLimitedDoor(
    CallLimit* limit, std::shared_ptr<grpc::AuthMetadataProcessor> door, KnowsCaller knows) {
  return std::make_shared<LimitedDoor>(limit, std::move(door), std::move(knows));
}

std::shared_ptr<grpc::ServerCredentials> MakeLimitedPlaintext(CallLimit* limit) {
  return std::make_shared<LimitedPlaintext>(limit);
}

}  // namespace longhaul
