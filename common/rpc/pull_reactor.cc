#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk_reactor.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/stall_watch.h"

namespace longhaul {
namespace {

// The steps are: request, executor, header, then executor, chunk by turns. Each begins when the one
// before it has ended, so there is one write or task at a time.
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
    Continue([this] { Answer(); });
  }

  void OnWriteDone(bool ok) override {
    watch().Pause();
    if (!ok) {
      End(call_.WhyFailed(resources().stall, "the client of a pull disconnected"));
    } else if (wire_.payload == payload_bytes_) {
      End(absl::OkStatus());
    } else {
      // Before the next chunk is made: it holds its bytes.
      message_.Clear();
      Continue([this] { SendNext(); });
    }
  }

 private:
  void Release() override {
    call_.Done();
    next_ = nullptr;
    handler_ = {};
  }

  absl::Status Take(const grpc::ByteBuffer& request) {
    LH_RETURN_IF_ERROR(CheckDeadline(*context_));
    LH_RETURN_IF_ERROR(ParseFromByteBuffer(request, &request_));
    if (handler_.on_admit) LH_RETURN_IF_ERROR(handler_.on_admit(request_));
    return Admit(request_.pool(), BytesHeld());
  }

  // The largest message with these blocks, and the ranges: here, and at the handler. They are not
  // checked yet.
  int64_t BytesHeld() const {
    constexpr int64_t kBlockBytesMax = kBlockElements * sizeof(float);
    int64_t payload = 0;
    for (const v1::BlockRange& range : request_.blocks()) {
      const bool small = range.count() >= 0 && range.count() < kPayloadBytesMax / kBlockBytesMax;
      payload += small ? range.count() * kBlockBytesMax : kPayloadBytesMax;
    }
    const int64_t ranges = static_cast<int64_t>(request_.SpaceUsedLong()) +
                           request_.blocks_size() * static_cast<int64_t>(sizeof(BlockRange));
    return std::min(payload, kPayloadBytesMax) + kRestBytesMax + ranges;
  }

  // Runs a step on the executor.
  template <typename Step>
  void Continue(Step step) {
    if (!resources().executor->Submit(request_.pool(), std::move(step))) End(TooManyBulkCalls());
  }

  void Answer() {
    absl::StatusOr<PullSource> answer = handler_.on_request(request_);
    if (!answer.ok()) return End(answer.status());
    v1::PullMessage first;
    *first.mutable_header() = std::move(answer->header);
    payload_bytes_ = first.header().payload_bytes();
    next_ = std::move(answer->next);
    message_ = SerializeToByteBuffer(first);
    Write(0);
  }

  void SendNext() {
    absl::StatusOr<CodedBlocks> chunk = next_();
    if (!chunk.ok()) return End(chunk.status());
    const auto bytes = static_cast<int64_t>(chunk->payload.size());
    if (bytes == 0 || bytes > payload_bytes_ - wire_.payload) {
      return End(absl::InternalError(absl::StrCat("a chunk of ", bytes, " bytes after ",
                                                  wire_.payload, " of ", payload_bytes_)));
    }
    message_ = ChunkMessage(*std::move(chunk));
    Write(bytes);
  }

  // Until the message has left the process. Otherwise gRPC would hold its bytes beside those of the
  // next one.
  void Write(int64_t payload_bytes) {
    wire_.AddMessage(message_.Length(), payload_bytes);
    watch().Expect(static_cast<int64_t>(message_.Length()));
    StartWrite(&message_, grpc::WriteOptions().set_write_through());
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
  std::function<absl::StatusOr<CodedBlocks>()> next_;
  int64_t payload_bytes_ = 0;
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
