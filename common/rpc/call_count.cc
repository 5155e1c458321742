#include "common/rpc/call_count.h"

#include "absl/strings/match.h"

namespace longhaul {

using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// gRPC destroys it with the call.
class CallCount::Counted : public grpc::experimental::Interceptor {
 public:
  explicit Counted(CallCount* count) : count_(count) {
    absl::MutexLock lock(&count_->mutex_);
    ++count_->calls_;
  }
  ~Counted() override {
    absl::MutexLock lock(&count_->mutex_);
    --count_->calls_;
  }
  void Intercept(InterceptorBatchMethods* batch) override { batch->Proceed(); }

 private:
  CallCount* const count_;
};

class CallCount::Counter : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Counter(CallCount* count) : count_(count) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* call) override {
    return absl::StartsWith(call->method(), "/grpc.") ? nullptr : new Counted(count_);
  }

 private:
  CallCount* const count_;
};

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CallCount::MakeCounter() {
  return std::make_unique<Counter>(this);
}

void CallCount::AwaitNone() {
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; };
  const absl::MutexLock lock(&mutex_, absl::Condition(&none));
}

}  // namespace longhaul
