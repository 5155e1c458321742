#include "coordinator/service/log_service.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/access/caller.h"
#include "coordinator/service/refused_call.h"

namespace longhaul::coordinator {
namespace {

// The call of one agent. Lives as long as the call, and as long as the hub holds it.
class AgentLogs final : public grpc::ServerBidiReactor<v1::ServeLogsRequest, v1::ServeLogsResponse>,
                        public LogSource {
 public:
  // To be returned by the RPC's method.
  static AgentLogs* Open(LogHub* hub, PoolCaller caller) {
    const std::shared_ptr<AgentLogs> call(new AgentLogs(hub, std::move(caller)));
    call->self_ = call;
    call->StartRead(&call->incoming_);
    return call.get();
  }

  void Send(const v1::ServeLogsResponse& message) override {
    {
      absl::MutexLock lock(&mutex_);
      if (queue_.size() < kLogDemandsMax) {
        queue_.push_back(message);
      } else {
        Close(absl::ResourceExhaustedError("the stream is not read fast enough"));
      }
    }
    Go();
  }
  void End(const absl::Status& status) override {
    {
      absl::MutexLock lock(&mutex_);
      Close(status);
    }
    Go();
  }

 private:
  AgentLogs(LogHub* hub, PoolCaller caller) : hub_(hub), caller_(std::move(caller)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (const absl::Status taken = Take(); !taken.ok()) return End(taken);
    StartRead(&incoming_);
  }

  // Only one read is under way, so that what it uses needs no lock.
  absl::Status Take() {
    if (id_ == 0) {
      if (!IsName(incoming_.pool()))
        return BadRequestError({{"pool", absl::StrCat("is not ", kNameForm)}});
      if (incoming_.node() < 0 || incoming_.node() >= kRanksMax)
        return BadRequestError({{"node", absl::StrCat("is not within 0 to ", kRanksMax - 1)}});
      LH_RETURN_IF_ERROR(caller_.MayActFor(incoming_.pool()));
      id_ = hub_->Add(self_, incoming_.pool(), incoming_.node());
      return absl::OkStatus();
    }
    if (incoming_.text().size() > kLogTextMax)
      return BadRequestError({{"text", absl::StrCat("is larger than ", kLogTextMax, " bytes")}});
    hub_->Deliver(id_, std::exchange(incoming_, {}));
    return absl::OkStatus();
  }

  void OnWriteDone(bool ok) override {
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) Close(absl::CancelledError("the agent is gone"));
    }
    Go();
  }
  void OnCancel() override { End(absl::CancelledError("the agent is gone")); }
  void OnDone() override {
    if (id_ != 0) hub_->Remove(id_);
    const std::shared_ptr<AgentLogs> end = std::move(self_);
  }

  void Close(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closed_.has_value()) return;
    closed_ = status;
    queue_.clear();
  }

  // Without the lock: gRPC may call back at once.
  void Go() {
    bool write = false, finish = false;
    {
      absl::MutexLock lock(&mutex_);
      if (writing_ || finished_) return;
      if (closed_.has_value()) {
        finish = finished_ = true;
      } else if (!queue_.empty()) {
        outgoing_ = std::move(queue_.front());
        queue_.pop_front();
        write = writing_ = true;
      }
    }
    if (write) StartWrite(&outgoing_);
    if (finish) Finish(ToGrpcStatus(Closed()));
  }
  absl::Status Closed() {
    absl::MutexLock lock(&mutex_);
    return *closed_;
  }

  LogHub* const hub_;
  const PoolCaller caller_;
  std::shared_ptr<AgentLogs> self_;  // Until the call is done.
  v1::ServeLogsRequest incoming_;
  int64_t id_ = 0;  // 0: the first message has not come.
  absl::Mutex mutex_;
  std::deque<v1::ServeLogsResponse> queue_ ABSL_GUARDED_BY(mutex_);
  v1::ServeLogsResponse outgoing_;  // Does not change while it is written.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

LogService::LogService(LogHub* hub, bool certificates, const Door* door)
    : hub_(hub), certificates_(certificates), door_(door) {}

LogService::~LogService() = default;

grpc::ServerWriteReactor<v1::FollowLogsResponse>* LogService::FollowLogs(
    grpc::CallbackServerContext* context, const v1::FollowLogsRequest* request) {
  LH_RETURN_IF_REFUSED(door_, context);
  std::shared_ptr<LogHub::ReaderStream> stream = LogHub::ReaderStream::Open(LogHub::kQueueMax);
  grpc::ServerWriteReactor<v1::FollowLogsResponse>* reactor = stream.get();
  if (request->tail() < 0 || request->tail() > kLogTailMax) {
    stream->End(BadRequestError(
        {{"tail", absl::StrCat("found ", request->tail(), ", expected 0 to ", kLogTailMax)}}));
  } else if (request->positions_size() > kLogPositionsMax) {
    stream->End(BadRequestError(
        {{"positions", absl::StrCat("has more than ", kLogPositionsMax, " entries")}}));
  } else {
    hub_->Read(*request, std::move(stream));
  }
  return reactor;
}

grpc::ServerBidiReactor<v1::ServeLogsRequest, v1::ServeLogsResponse>* LogService::ServeLogs(
    grpc::CallbackServerContext* context) {
  LH_RETURN_IF_REFUSED(door_, context);
  return AgentLogs::Open(hub_, PoolCaller(*context, certificates_));
}

}  // namespace longhaul::coordinator
