#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/bulk_reactor.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/stall_watch.h"

namespace longhaul {
namespace {

// The steps are: request, executor, header, chunks with one write in progress. Only the executor's
// task uses the object until it starts the first write. After that gRPC's callbacks follow one
// after another.
class PullReactor final : public BulkWriteReactor {
 public:
  PullReactor(grpc::CallbackServerContext* context, PullHandler handler,
              const BulkResources& resources)
      : BulkWriteReactor(resources),
        context_(context),
        handler_(std::move(handler)),
        call_(context) {}

  void Start(const grpc::ByteBuffer& request) {
    const absl::Status status = Take(request);
    if (!status.ok()) return End(status);
    Watch([this] { call_.Cancel(); });
    if (!resources().executor->Submit(request_.pool(), [this] { Answer(); }))
      End(TooManyBulkCalls());
  }

  void OnWriteDone(bool ok) override {
    watch().Pause();
    if (!ok) {
      End(call_.WhyFailed(resources().stall, "the reader of a pull is gone"));
    } else if (chunks_->done()) {
      End(absl::OkStatus());
    } else {
      int64_t payload_bytes = 0;
      message_ = chunks_->Next(&payload_bytes);
      Write(payload_bytes);
    }
  }

 private:
  void Release() override {
    call_.Done();
    chunks_.reset();
    handler_ = {};
  }

  absl::Status Take(const grpc::ByteBuffer& request) {
    LH_RETURN_IF_ERROR(CheckDeadline(*context_));
    LH_RETURN_IF_ERROR(ParseFromByteBuffer(request, &request_));
    if (handler_.on_admit) LH_RETURN_IF_ERROR(handler_.on_admit(request_));
    return Admit(request_.pool(), BytesHeld());
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

  void Answer() {
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
    watch().Expect(static_cast<int64_t>(message_.Length()));
    StartWrite(&message_);
  }

  // The last step, as EndCall.
  void End(const absl::Status& status) {
    if (handler_.on_end) handler_.on_end(status, wire_);
    EndCall(status);
  }

  // gRPC owns it. Valid until EndCall.
  grpc::CallbackServerContext* const context_;
  PullHandler handler_;
  StalledCall call_;
  v1::PullRequest request_;
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
  return BulkWriteReactor::Begin(
      std::make_shared<PullReactor>(context, std::move(handler), resources), *request);
}

}  // namespace longhaul
