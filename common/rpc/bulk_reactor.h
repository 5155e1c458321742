// What the reactors of all bulk calls have in common: the call owns its reactor, the peer is
// watched, and the call has a share of the memory for bulk streams.
//
//   Begin -> Start: CheckDeadline, Admit, Watch -> reads or writes -> EndCall -> OnDone, by gRPC
//
// The object lives until OnDone, and a little longer if an alarm of the watch is late. So its
// memory is freed by Release, and nothing of the call may be used after EndCall.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/stream_admission.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace longhaul {

// `GrpcReactor`: a server's reactor of byte buffers. Never blocks.
template <typename GrpcReactor>
class BulkReactor : public GrpcReactor {
 public:
  // Begins a call, whose reactor the caller returns to gRPC. Start, with these arguments, is the
  // reactor's first step; it may end the call.
  template <typename Reactor, typename... Arguments>
  static Reactor* Begin(std::shared_ptr<Reactor> reactor, const Arguments&... arguments) {
    reactor->self_ = reactor;
    reactor->Start(arguments...);
    return reactor.get();
  }

  void OnDone() final {
    watch_->Stop();
    Release();
    ticket_ = {};
    const std::shared_ptr<BulkReactor> last = std::move(self_);
  }

 protected:
  // What `resources` points to outlives the call.
  explicit BulkReactor(const BulkResources& resources)
      : resources_(resources), watch_(std::make_shared<StallWatch>(resources.stall)) {}

  // INVALID_ARGUMENT: the call has no deadline, or too late a one.
  absl::Status CheckDeadline(const grpc::CallbackServerContext& context) const {
    return CheckBulkDeadline(context, resources_.deadline_max);
  }
  // Takes a share of the memory until the call is done. RESOURCE_EXHAUSTED: see StreamAdmission.
  absl::Status Admit(absl::string_view owner, int64_t bytes) {
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit(owner, bytes));
    return absl::OkStatus();
  }
  // From now on `on_stall` is called if the peer makes no progress (stall_watch.h).
  void Watch(std::function<void()> on_stall) {
    watch_->Start([self = self_, on_stall = std::move(on_stall)] { on_stall(); });
  }
  // Must be the last call: the object may be gone when it returns.
  void EndCall(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }

  // Called when the call is done, at the latest moment.
  virtual void Release() = 0;

  const BulkResources& resources() const { return resources_; }
  StallWatch& watch() { return *watch_; }
  // Keeps the object for a task that may outlast the call.
  std::shared_ptr<BulkReactor> self() const { return self_; }

 private:
  const BulkResources resources_;
  // The alarm keeps it.
  const std::shared_ptr<StallWatch> watch_;
  StreamAdmission::Ticket ticket_;
  // Until OnDone.
  std::shared_ptr<BulkReactor> self_;
};

using BulkReadReactor = BulkReactor<grpc::ServerReadReactor<grpc::ByteBuffer>>;
using BulkWriteReactor = BulkReactor<grpc::ServerWriteReactor<grpc::ByteBuffer>>;

}  // namespace longhaul
