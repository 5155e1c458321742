#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"

namespace longhaul {
namespace {

// Request, executor, header, chunks with one write in flight. The executor's task is the only user
// until it starts the first write; gRPC's callbacks follow one after another.
class PullReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  PullReactor(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
              PullHandler handler, const BulkResources& resources)
      : handler_(std::move(handler)), resources_(resources) {
    const absl::Status status = Admit(*context, *request);
    if (!status.ok()) {
      End(status);
    } else if (!resources_.executor->Submit([this] { Begin(); })) {
      End(TooManyBulkCalls());
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(absl::CancelledError("the reader of a pull is gone"));
    } else if (chunks_->done()) {
      End(absl::OkStatus());
    } else {
      int64_t payload_bytes = 0;
      message_ = chunks_->Next(&payload_bytes);
      Write(payload_bytes);
    }
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Admit(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) {
    LH_RETURN_IF_ERROR(CheckBulkDeadline(context, resources_.deadline_max));
    LH_RETURN_IF_ERROR(ParseFromByteBuffer(request, &request_));
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit());
    return absl::OkStatus();
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
    StartWrite(&message_);
  }

  // The last thing that is done: the object may be gone when Finish returns.
  void End(const absl::Status& status) {
    if (handler_.on_end) handler_.on_end(status, wire_);
    Finish(ToGrpcStatus(status));
  }

  const PullHandler handler_;
  const BulkResources resources_;
  v1::PullRequest request_;
  StreamAdmission::Ticket ticket_;
  std::optional<ChunkWriter> chunks_;  // Once the request was granted.
  grpc::ByteBuffer message_;           // In flight.
  WireBytes wire_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendPull(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     PullHandler handler,
                                                     const BulkResources& resources) {
  return new PullReactor(context, request, std::move(handler), resources);
}

}  // namespace longhaul
