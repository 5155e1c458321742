#include "coordinator/service/log_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/access/caller.h"
#include "coordinator/service/refused_call.h"

namespace longhaul::coordinator {
namespace {

using DemandStream =
    OutgoingStream<v1::ServeLogsResponse,
                   grpc::ServerBidiReactor<v1::ServeLogsRequest, v1::ServeLogsResponse>>;

// The call of one agent. Lives as long as the call, and as long as the hub holds it.
class AgentLogs final : public DemandStream, public LogSource {
 public:
  // To be returned by the RPC's method.
  static AgentLogs* Open(LogHub* hub, PoolCaller caller) {
    const std::shared_ptr<AgentLogs> call(new AgentLogs(hub, std::move(caller)));
    call->self_ = call;
    call->StartRead(&call->incoming_);
    return call.get();
  }

  void Send(const v1::ServeLogsResponse& message) override { DemandStream::Send(message); }
  void End(const absl::Status& status) override { DemandStream::End(status); }

 private:
  AgentLogs(LogHub* hub, PoolCaller caller)
      : DemandStream(kLogDemandsMax), hub_(hub), caller_(std::move(caller)) {}

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
      id_ = hub_->Add({self_, this}, incoming_.pool(), incoming_.node());
      return absl::OkStatus();
    }
    if (incoming_.text().size() > kLogTextMax)
      return BadRequestError({{"text", absl::StrCat("is larger than ", kLogTextMax, " bytes")}});
    hub_->Deliver(id_, std::exchange(incoming_, {}));
    return absl::OkStatus();
  }

  void OnDone() override {
    if (id_ != 0) hub_->Remove(id_);
    DemandStream::OnDone();
  }

  LogHub* const hub_;
  const PoolCaller caller_;
  v1::ServeLogsRequest incoming_;
  int64_t id_ = 0;  // 0: the first message has not come.
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
