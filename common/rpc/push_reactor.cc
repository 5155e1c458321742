#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/bulk_reactor.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/received_chunks.h"

namespace longhaul {
namespace {

// gRPC's callbacks read and verify the chunks, and the executor's task gives them to the handler.
class PushReactor final : public BulkReadReactor {
 public:
  PushReactor(grpc::ByteBuffer* response, PushHandler handler, const BulkResources& resources)
      : BulkReadReactor(resources),
        response_(response),
        handler_(std::move(handler)),
        chunks_(resources.executor, {.read = [this] { Read(); },
                                     .take =
                                         [this](CodedChunk chunk) {
                                           return handler_.on_chunk(header_, std::move(chunk));
                                         },
                                     .complete = [this] { return Complete(); },
                                     .broken =
                                         [this] {
                                           if (handler_.on_broken) handler_.on_broken();
                                         },
                                     .end = [this](const absl::Status& status) { End(status); }}) {}

  void Start(const grpc::CallbackServerContext& context) {
    if (const absl::Status deadline = CheckDeadline(context); !deadline.ok())
      return chunks_.Refuse(deadline);
    Watch([this] { chunks_.Close(StalledError(resources().stall)); });
    Read();
  }

  void OnReadDone(bool ok) override {
    // The stream stalled, and the executor's task ends the call: nothing must begin beside that.
    if (!watch().Pause()) return;
    if (!verifier_.has_value()) {
      const absl::Status begun = ok ? TakeHeader() : MissingHeader("a push without a header");
      if (!begun.ok()) return chunks_.Refuse(begun);
      message_.Clear();
      return Read();
    }
    if (!ok) return chunks_.Close(verifier_->Finish());
    WireBytes wire;
    absl::StatusOr<CodedChunk> chunk = verifier_->Verify(message_, wire);
    message_.Clear();
    {
      absl::MutexLock lock(&mutex_);
      wire_ += wire;
    }
    if (!chunk.ok()) return chunks_.Close(chunk.status());
    chunks_.Add(*std::move(chunk));
  }

 private:
  using Chunks = ReceivedChunks<CodedChunk>;

  void Release() override { handler_ = {}; }

  absl::Status TakeHeader() {
    {
      absl::MutexLock lock(&mutex_);
      wire_.AddMessage(message_.Length(), 0);
    }
    LH_ASSIGN_OR_RETURN(const IncomingMessage first, IncomingMessage::Parse(message_));
    v1::PushMessage message;
    if (!message.ParseFromArray(first.rest().data(), static_cast<int>(first.rest().size())) ||
        !message.has_header() || message.segments_size() > 0 || first.payload_bytes() > 0) {
      return MissingHeader("the first message of a push has the header and nothing else");
    }
    header_ = std::move(*message.mutable_header());
    LH_ASSIGN_OR_RETURN(StreamLimits limits, handler_.on_header(header_));
    LH_ASSIGN_OR_RETURN(ChunkVerifier verifier,
                        ChunkVerifier::Create({.fragment = header_.fragment(),
                                               .blocks = BlocksFromProto(header_.blocks()),
                                               .payload_bytes = header_.payload_bytes()},
                                              std::move(limits)));
    LH_RETURN_IF_ERROR(Admit(header_.pool(), BytesHeld(header_.payload_bytes())));
    chunks_.SetOwner(header_.pool());
    verifier_.emplace(std::move(verifier));
    return absl::OkStatus();
  }

  static int64_t BytesHeld(int64_t payload_bytes) {
    return std::min(Chunks::kHeldMax * kPayloadBytesMax, payload_bytes) + kRestBytesMax;
  }

  // Starts the next read, from any thread. There is one read at a time.
  void Read() {
    watch().Expect(std::min(header_.payload_bytes(), kPayloadBytesMax));
    StartRead(&message_);
  }

  // On the executor.
  absl::Status Complete() {
    const absl::StatusOr<v1::PushResponse> response = handler_.on_complete(header_);
    if (response.ok()) *response_ = SerializeToByteBuffer(*response);
    return response.status();
  }

  // The last step, as EndCall.
  void End(const absl::Status& status) {
    WireBytes wire;
    {
      absl::MutexLock lock(&mutex_);
      wire = wire_;
    }
    if (handler_.on_end) handler_.on_end(status, wire);
    EndCall(status);
  }

  // gRPC owns it. Valid until EndCall.
  grpc::ByteBuffer* const response_;
  PushHandler handler_;
  // The message that is being read. Only the callback of that read uses it.
  grpc::ByteBuffer message_;
  // Set once the header was accepted.
  std::optional<ChunkVerifier> verifier_;
  // Constant once the header was accepted.
  v1::PushHeader header_;

  Chunks chunks_;

  absl::Mutex mutex_;
  WireBytes wire_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources) {
  return BulkReadReactor::Begin(
      std::make_shared<PushReactor>(response, std::move(handler), resources), *context);
}

}  // namespace longhaul
