#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"

namespace longhaul {
namespace {

absl::Status MissingHeader(absl::string_view what) {
  return WithErrorInfo(absl::InvalidArgumentError(what), {"MISSING_HEADER", {}});
}

// Two hands: gRPC's callbacks read and verify (one at a time), a task of the executor gives the
// chunks to the handler. The task runs while there are chunks, so a handler that keeps up is woken
// once for many. Whoever finds the end of the stream ends the call: the task if it runs, else the
// callback.
class PushReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  PushReactor(grpc::CallbackServerContext* context, grpc::ByteBuffer* response, PushHandler handler,
              const BulkResources& resources)
      : response_(response), handler_(std::move(handler)), resources_(resources) {
    const absl::Status deadline = CheckBulkDeadline(*context, resources.deadline_max);
    if (deadline.ok()) {
      StartRead(&message_);
    } else {
      End(deadline);
    }
  }

  void OnReadDone(bool ok) override {
    if (!verifier_.has_value()) {
      const absl::Status begun = ok ? Begin() : MissingHeader("a push without a header");
      if (!begun.ok()) return End(begun);
      message_.Clear();
      return StartRead(&message_);
    }
    if (!ok) return Hand(std::nullopt, verifier_->Finish(), {});
    WireBytes wire;
    absl::StatusOr<CodedChunk> chunk = verifier_->Verify(message_, wire);
    message_.Clear();
    if (!chunk.ok()) return Hand(std::nullopt, chunk.status(), wire);
    Hand(*std::move(chunk), std::nullopt, wire);
  }

  void OnDone() override { delete this; }

 private:
  // Verified, and not given back by the handler yet: one that it works on, one that waits.
  static constexpr int kChunksHeld = 2;

  absl::Status Begin() {
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
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit());
    verifier_.emplace(std::move(verifier));
    return absl::OkStatus();
  }

  // From a callback: a chunk, or how the stream ended. Reads on while the handler keeps up.
  void Hand(std::optional<CodedChunk> chunk, std::optional<absl::Status> end,
            const WireBytes& wire) {
    bool wake, read = false;
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;  // The handler refused a chunk; this read was under way.
      wire_ += wire;
      if (chunk.has_value()) {
        chunks_.push_back(*std::move(chunk));
        read = ++held_ < kChunksHeld;
        held_back_ = !read;
      }
      end_ = std::move(end);
      wake = !std::exchange(working_, true);
    }
    if (wake && !resources_.executor->Submit([this] { Work(); })) return End(TooManyBulkCalls());
    if (read) StartRead(&message_);
  }

  // The executor's task: until nothing is left to do. Nothing is touched after End.
  void Work() {
    while (true) {
      std::optional<CodedChunk> chunk;
      {
        absl::MutexLock lock(&mutex_);
        if (!chunks_.empty()) {
          chunk = std::move(chunks_.front());
          chunks_.pop_front();
        } else if (!end_.has_value()) {
          working_ = false;
          return;
        }
      }
      if (!chunk.has_value()) return Complete();
      const absl::Status taken = handler_.on_chunk(header_, *std::move(chunk));
      chunk.reset();
      if (!taken.ok()) return End(taken);
      ReadOn();
    }
  }

  // One chunk less is held.
  void ReadOn() {
    {
      absl::MutexLock lock(&mutex_);
      --held_;
      if (!std::exchange(held_back_, false)) return;
    }
    StartRead(&message_);
  }

  // The peer has sent all, or is gone, or sent what is refused. Called by the executor's task.
  void Complete() {
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      status = *end_;
    }
    if (!status.ok()) return End(status);
    const absl::StatusOr<v1::PushResponse> response = handler_.on_complete(header_);
    if (response.ok()) *response_ = SerializeToByteBuffer(*response);
    End(response.status());
  }

  // The last thing that is done: the object may be gone when Finish returns.
  void End(const absl::Status& status) {
    WireBytes wire;
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
      wire = wire_;
    }
    if (handler_.on_end) handler_.on_end(status, wire);
    Finish(ToGrpcStatus(status));
  }

  grpc::ByteBuffer* const response_;  // gRPC's, until Finish.
  const PushHandler handler_;
  const BulkResources resources_;
  // Of the callback whose read is in flight.
  grpc::ByteBuffer message_;
  std::optional<ChunkVerifier> verifier_;  // Once the header was accepted.
  // Constant once the header was accepted.
  v1::PushHeader header_;
  StreamAdmission::Ticket ticket_;

  absl::Mutex mutex_;
  std::deque<CodedChunk> chunks_ ABSL_GUARDED_BY(mutex_);  // For the handler.
  int held_ ABSL_GUARDED_BY(mutex_) = 0;            // Those and the one that the handler has.
  bool held_back_ ABSL_GUARDED_BY(mutex_) = false;  // No read is in flight: too many are held.
  bool working_ ABSL_GUARDED_BY(mutex_) = false;    // The task is queued or runs.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // How reading ended.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  WireBytes wire_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources) {
  return new PushReactor(context, response, std::move(handler), resources);
}

}  // namespace longhaul
