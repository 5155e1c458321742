#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
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

// Two threads work on a stream: gRPC's callbacks read and verify (one at a time), and a task of the
// executor gives the chunks to the handler. The task runs while there are chunks, so a fast handler
// is not woken for each of them. Between two chunks the task lets other streams run. If the task
// runs when the stream ends, it ends the call; otherwise the callback does.
class PushReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  PushReactor(grpc::ByteBuffer* response, PushHandler handler, const BulkResources& resources)
      : response_(response), handler_(std::move(handler)), resources_(resources) {}

  // `self` owns this object, which keeps it until the call is done.
  void Start(const grpc::CallbackServerContext& context, std::shared_ptr<PushReactor> self) {
    self_ = self;
    if (const absl::Status deadline = CheckBulkDeadline(context, resources_.deadline_max);
        !deadline.ok()) {
      return End(deadline);
    }
    watch_->Start([self = std::move(self)] { self->Stalled(); });
    Read();
  }

  void OnReadDone(bool ok) override {
    watch_->Pause();
    if (!verifier_.has_value()) {
      {
        absl::MutexLock lock(&mutex_);
        // The stream stalled before its first message.
        if (ended_) return;
        begun_ = true;
      }
      const absl::Status begun = ok ? Begin() : MissingHeader("a push without a header");
      if (!begun.ok()) return RefuseHeader(begun);
      message_.Clear();
      return Read();
    }
    if (!ok) return Hand(std::nullopt, verifier_->Finish(), {});
    WireBytes wire;
    absl::StatusOr<CodedChunk> chunk = verifier_->Verify(message_, wire);
    message_.Clear();
    if (!chunk.ok()) return Hand(std::nullopt, chunk.status(), wire);
    Hand(*std::move(chunk), std::nullopt, wire);
  }

  // Memory is freed here, since a late alarm may keep the object alive a little longer than the
  // call.
  void OnDone() override {
    watch_->Stop();
    handler_ = {};
    ticket_ = {};
    const std::shared_ptr<PushReactor> last = std::move(self_);
  }

 private:
  // Verified chunks that the handler has not finished: one that it works on, one that waits.
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
    LH_ASSIGN_OR_RETURN(
        ticket_, resources_.admission->Admit(header_.pool(), BytesHeld(header_.payload_bytes())));
    verifier_.emplace(std::move(verifier));
    return absl::OkStatus();
  }

  // Ends the call, unless the stream stalled meanwhile: then the executor's task ends it.
  void RefuseHeader(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (end_.has_value()) return;
      ended_ = true;
    }
    End(status);
  }

  static int64_t BytesHeld(int64_t payload_bytes) {
    return std::min(kChunksHeld * kPayloadBytesMax, payload_bytes) + kRestBytesMax;
  }

  // Starts the next read, from any thread. There is one read at a time.
  void Read() {
    watch_->Expect(std::min(header_.payload_bytes(), kPayloadBytesMax));
    StartRead(&message_);
  }

  // Called by the alarm while a read is in progress: the peer sends nothing.
  void Stalled() {
    bool begun;
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      begun = begun_;
      ended_ = !begun;
    }
    const absl::Status stalled = StalledError(resources_.stall);
    return begun ? Hand(std::nullopt, stalled, {}) : End(stalled);
  }

  // Called by a callback, with a chunk or with how the stream ended. Reads on while the handler is
  // fast enough.
  void Hand(std::optional<CodedChunk> chunk, std::optional<absl::Status> end,
            const WireBytes& wire) {
    bool wake, read = false;
    {
      absl::MutexLock lock(&mutex_);
      wire_ += wire;
      // The handler refused a chunk, or the stream stalled, while this read was in progress.
      if (ended_ || end_.has_value()) return;
      if (chunk.has_value()) {
        chunks_.push_back(*std::move(chunk));
        read = ++held_ < kChunksHeld;
        held_back_ = !read;
      }
      end_ = std::move(end);
      wake = !std::exchange(working_, true);
    }
    if (wake && !resources_.executor->Submit([this] { Work(); })) return End(TooManyBulkCalls());
    if (read) Read();
  }

  // The executor's task: works until nothing is left to do. After End it must not touch the object.
  void Work() {
    while (true) {
      CodedChunk chunk;
      bool complete = false;
      {
        absl::MutexLock lock(&mutex_);
        if (!chunks_.empty()) {
          chunk = std::move(chunks_.front());
          chunks_.pop_front();
        } else if (end_.has_value()) {
          complete = true;
        } else {
          working_ = false;
          return;
        }
      }
      if (complete) return Complete();
      const absl::Status taken = handler_.on_chunk(header_, std::move(chunk));
      // This frees the memory of the chunk before the next one is read.
      chunk = {};
      if (!taken.ok()) return End(taken);
      ReadOn();
      if (resources_.executor->crowded() && resources_.executor->Submit([this] { Work(); })) return;
    }
  }

  // Called when one chunk less is held.
  void ReadOn() {
    {
      absl::MutexLock lock(&mutex_);
      --held_;
      if (!std::exchange(held_back_, false) || end_.has_value()) return;
    }
    Read();
  }

  // The stream ended: the peer has sent everything, or is gone, or sent something wrong. Called by
  // the executor's task.
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

  // The last step: the object may be gone when Finish returns.
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

  // gRPC owns it. Valid until Finish.
  grpc::ByteBuffer* const response_;
  PushHandler handler_;
  const BulkResources resources_;
  const std::shared_ptr<StallWatch> watch_ = std::make_shared<StallWatch>(resources_.stall);
  // Set until OnDone.
  std::shared_ptr<PushReactor> self_;
  // The message that is being read. Only the callback of that read uses it.
  grpc::ByteBuffer message_;
  // Set once the header was accepted.
  std::optional<ChunkVerifier> verifier_;
  // Constant once the header was accepted.
  v1::PushHeader header_;
  StreamAdmission::Ticket ticket_;

  absl::Mutex mutex_;
  // The first message has come.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  // Chunks that wait for the handler.
  std::deque<CodedChunk> chunks_ ABSL_GUARDED_BY(mutex_);
  // Those, and the one that the handler has.
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  // No read is in progress, since too many chunks are held.
  bool held_back_ ABSL_GUARDED_BY(mutex_) = false;
  // The task is queued or runs.
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  // How reading ended.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  WireBytes wire_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources) {
  auto reactor = std::make_shared<PushReactor>(response, std::move(handler), resources);
  reactor->Start(*context, reactor);
  return reactor.get();
}

}  // namespace longhaul
