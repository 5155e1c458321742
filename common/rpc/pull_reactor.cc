#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/status_conversion.h"

namespace longhaul {
namespace {

// The steps are: request, executor, header, chunks with one write in progress. Only the executor's
// task uses the object until it starts the first write. After that gRPC's callbacks follow one
// after another.
class PullReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  PullReactor(grpc::CallbackServerContext* context, PullHandler handler,
              const BulkResources& resources)
      : context_(context), handler_(std::move(handler)), resources_(resources), call_(context) {}

  // `self` owns this object, which keeps it until the call is done.
  void Start(const grpc::ByteBuffer& request, std::shared_ptr<PullReactor> self) {
    self_ = self;
    const absl::Status status = Admit(request);
    if (!status.ok()) return End(status);
    watch_->Start([self = std::move(self)] { self->call_.Cancel(); });
    if (!resources_.executor->Submit([this] { Begin(); })) End(TooManyBulkCalls());
  }

  void OnWriteDone(bool ok) override {
    watch_->Pause();
    if (!ok) {
      End(call_.WhyFailed(resources_.stall, "the reader of a pull is gone"));
    } else if (chunks_->done()) {
      End(absl::OkStatus());
    } else {
      int64_t payload_bytes = 0;
      message_ = chunks_->Next(&payload_bytes);
      Write(payload_bytes);
    }
  }

  // Memory is freed here, since a late alarm may keep the object alive a little longer than the
  // call.
  void OnDone() override {
    watch_->Stop();
    call_.Done();
    chunks_.reset();
    handler_ = {};
    ticket_ = {};
    const std::shared_ptr<PullReactor> last = std::move(self_);
  }

 private:
  absl::Status Admit(const grpc::ByteBuffer& request) {
    LH_RETURN_IF_ERROR(CheckBulkDeadline(*context_, resources_.deadline_max));
    LH_RETURN_IF_ERROR(ParseFromByteBuffer(request, &request_));
    if (handler_.on_admit) LH_RETURN_IF_ERROR(handler_.on_admit(request_));
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit(request_.pool(), BytesHeld()));
    return absl::OkStatus();
  }

  // The largest message with these blocks. They are not checked yet.
  int64_t BytesHeld() const {
    constexpr int64_t kBlockBytesMax = kBlockElements * sizeof(float);
    int64_t payload = 0;
    for (const v1::BlockRange& range : request_.blocks()) {
      const bool small = range.count() >= 0 && range.count() < kPayloadBytesMax / kBlockBytesMax;
      payload += small ? range.count() * kBlockBytesMax : kPayloadBytesMax;
    }
    return std::min(payload, kPayloadBytesMax) + kRestBytesMax;
  }

  void Begin() {
    absl::StatusOr<PullSource> answer = handler_.on_request(request_);
    if (!answer.ok()) {
      End(answer.status());
      return;
    }
    v1::PullMessage first;
    *first.mutable_header() = std::move(answer->header);
    first.mutable_header()->set_payload_bytes(answer->source.payload_bytes());
    chunks_.emplace(std::move(answer->source));
    message_ = SerializeToByteBuffer(first);
    Write(0);
  }

  void Write(int64_t payload_bytes) {
    wire_.AddMessage(message_.Length(), payload_bytes);
    watch_->Expect(static_cast<int64_t>(message_.Length()));
    StartWrite(&message_);
  }

  // The last step: the object may be gone when Finish returns.
  void End(const absl::Status& status) {
    if (handler_.on_end) handler_.on_end(status, wire_);
    Finish(ToGrpcStatus(status));
  }

  // gRPC owns it. Valid until Finish.
  grpc::CallbackServerContext* const context_;
  PullHandler handler_;
  const BulkResources resources_;
  const std::shared_ptr<StallWatch> watch_ = std::make_shared<StallWatch>(resources_.stall);
  // Set until OnDone.
  std::shared_ptr<PullReactor> self_;
  StalledCall call_;
  v1::PullRequest request_;
  StreamAdmission::Ticket ticket_;
  // Set once the request was granted.
  std::optional<ChunkWriter> chunks_;
  // The message that is being written.
  grpc::ByteBuffer message_;
  WireBytes wire_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     PullHandler handler,
                                                     const BulkResources& resources) {
  auto reactor = std::make_shared<PullReactor>(context, std::move(handler), resources);
  reactor->Start(*request, reactor);
  return reactor.get();
}

}  // namespace longhaul
