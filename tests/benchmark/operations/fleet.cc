#include "tests/benchmark/operations/fleet.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/rpc/transport_options.h"
#include "grpcpp/create_channel.h"
#include "longhaul/v1/logs.grpc.pb.h"
#include "longhaul/v1/pool.grpc.pb.h"

namespace longhaul::benchmark {
namespace {

constexpr char kIncarnation[] = "0123456789abcdef";
constexpr absl::Duration kDeadline = absl::Seconds(20);

// Settings of common/rpc/channel.cc; credentials that one process has 1,000 of.
std::shared_ptr<grpc::Channel> Dial(const std::string& address,
                                    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  const Keepalive keepalive;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(keepalive.time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, absl::ToInt64Milliseconds(keepalive.timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

// Greets and stays open, as long as nobody asks for logs.
class LogStream : public grpc::ClientBidiReactor<v1::ServeLogsRequest, v1::ServeLogsResponse> {
 public:
  LogStream(v1::LogService::Stub& stub, const std::string& pool) {
    greeting_.set_pool(pool);
    stub.async()->ServeLogs(&context_, this);
    StartWrite(&greeting_);
    StartRead(&ignored_);
    StartCall();
  }
  void OnDone(const grpc::Status&) override { done_.Notify(); }
  void End() {
    context_.TryCancel();
    done_.WaitForNotification();
  }

 private:
  grpc::ClientContext context_;
  v1::ServeLogsRequest greeting_;
  v1::ServeLogsResponse ignored_;
  absl::Notification done_;
};

struct Fleet::Pool {
  std::unique_ptr<v1::PoolService::Stub> control;
  std::unique_ptr<v1::LogService::Stub> logs;
  std::unique_ptr<LogStream> stream;
  v1::HeartbeatRequest request;
  v1::HeartbeatResponse response;
  std::unique_ptr<grpc::ClientContext> context;
  std::atomic<bool> under_way = false;
};

void Fleet::Join(const CoordinatorProcess& coordinator, int number) {
  const std::string name = absl::StrCat("site-", number);
  const auto credentials = coordinator.CredentialsOf(name);
  Pool& pool = pools_[number];
  pool.control = v1::PoolService::NewStub(Dial(coordinator.address(), credentials));
  pool.logs = v1::LogService::NewStub(Dial(coordinator.address(), credentials));
  v1::JoinRequest join;
  join.set_pool(name);
  join.set_incarnation(kIncarnation);
  join.set_ranks(1);
  v1::JoinResponse joined;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
  const grpc::Status status = pool.control->Join(&context, join, &joined);
  LH_CHECK(status.ok(), absl::StrCat(name, " cannot join: ", status.error_message()).c_str());
  pool.stream = std::make_unique<LogStream>(*pool.logs, name);
  pool.request.set_pool(name);
  pool.request.set_incarnation(kIncarnation);
}

void Fleet::Beat(Pool& pool) {
  if (pool.under_way.exchange(true)) {
    ++late_;
    return;
  }
  pool.context = std::make_unique<grpc::ClientContext>();
  pool.context->set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
  pool.control->async()->Heartbeat(pool.context.get(), &pool.request, &pool.response,
                                   [this, &pool](const grpc::Status& status) {
                                     ++(status.ok() ? answered_ : failed_);
                                     pool.under_way = false;
                                   });
}

Fleet::Fleet(const CoordinatorProcess& coordinator, int pools, absl::Duration heartbeat)
    : pools_(pools) {
  // Those that have joined keep their leases while the others come.
  thread_ = std::jthread([this, heartbeat](const std::stop_token& stop) {
    const absl::Duration step = heartbeat / static_cast<double>(pools_.size());
    absl::Time due = absl::Now();
    for (size_t next = 0; !stop.stop_requested(); next = (next + 1) % pools_.size(), due += step) {
      absl::SleepFor(due - absl::Now());
      if (next < joined_) Beat(pools_[next]);
    }
  });
  for (int number = 0; number < pools; ++number) {
    Join(coordinator, number);
    ++joined_;
  }
}

Fleet::~Fleet() {
  thread_.request_stop();
  thread_.join();
  for (Pool& pool : pools_) {
    while (pool.under_way) absl::SleepFor(absl::Milliseconds(1));
    pool.stream->End();
  }
}

}  // namespace longhaul::benchmark
