#include "coordinator/service/checkpoint_stream.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk_reactor.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/stall_watch.h"

namespace longhaul::coordinator {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
// All downloads together count as one owner of the memory for bulk streams.
constexpr char kOwner[] = "@download";

// At most one read (on the executor) and one write (gRPC's) are in flight. The one that ends later
// starts the next ones.
class CheckpointReactor final : public BulkWriteReactor {
 public:
  CheckpointReactor(grpc::CallbackServerContext* context, OpenCheckpointFile open,
                    const BulkResources& resources)
      : BulkWriteReactor(resources), context_(context), open_(std::move(open)), call_(context) {}

  void Start(const grpc::ByteBuffer& request) {
    if (const absl::Status status = Take(request); !status.ok()) return EndCall(status);
    Watch([this] { call_.Cancel(); });
    if (!resources().executor->Submit(kOwner, [this, self = self()] { Open(); }))
      EndCall(TooManyBulkCalls());
  }

  void OnWriteDone(bool ok) override {
    watch().Pause();
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) {
        failed_ =
            call_.WhyFailed(resources().stall, "the client of a checkpoint download disconnected");
        next_.reset();
      }
      next = Advance();
    }
    Do(next);
  }

 private:
  void Release() override {
    call_.Done();
    file_ = {};
  }

  absl::Status Take(const grpc::ByteBuffer& request) {
    LH_RETURN_IF_ERROR(CheckDeadline(*context_));
    LH_RETURN_IF_ERROR(ParseFromByteBuffer(request, &request_));
    return Admit(kOwner, 2 * kChunkBytes);
  }

  void Open() {
    absl::StatusOr<CheckpointFile> opened = open_(request_);
    if (!opened.ok()) return EndCall(opened.status());
    file_ = *std::move(opened);
    at_ = request_.offset();
    if (at_ < 0 || at_ > file_.bytes) {
      return EndCall(absl::OutOfRangeError(absl::StrCat(
          "offset ", at_, " is not within the ", file_.bytes, " bytes of ", request_.file())));
    }
    Read();
  }

  // On the executor. Only this function reads the file.
  void Read() {
    const auto size = static_cast<size_t>(std::min(kChunkBytes, file_.bytes - at_));
    FilePiece data{std::make_unique_for_overwrite<char[]>(size), size};
    const absl::Status read = file_.file->ReadExactly(at_, absl::MakeSpan(data.bytes.get(), size));
    v1::DownloadCheckpointResponse head;
    head.set_offset(at_);
    head.set_file_bytes(file_.bytes);
    head.set_step(file_.step);
    at_ += static_cast<int64_t>(size);
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      last_ = at_ == file_.bytes;
      if (!read.ok()) {
        failed_ = read;
      } else if (failed_.ok()) {
        next_ = MessageWithPayload(head, v1::DownloadCheckpointResponse::kDataFieldNumber,
                                   std::move(data));
      }
      next = Advance();
    }
    Do(next);
  }

  // What is to be done without the lock, since gRPC may call back at once.
  struct Next {
    bool write = false;
    std::optional<absl::Status> end;
  };

  // `end` is set once nothing is in flight any more.
  Next Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Next next;
    if (!writing_ && next_.has_value()) {
      in_flight_ = *std::exchange(next_, std::nullopt);
      next.write = writing_ = true;
    }
    if (!reading_ && !next_.has_value() && !last_ && failed_.ok()) {
      reading_ = true;
      if (!resources().executor->Submit(kOwner, [this, self = self()] { Read(); })) {
        reading_ = false;
        failed_ = TooManyBulkCalls();
      }
    }
    if (!reading_ && !writing_ && !next_.has_value()) next.end = failed_;
    return next;
  }

  // in_flight_ does not change while it is written.
  void Do(const Next& next) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (next.write) {
      watch().Expect(static_cast<int64_t>(in_flight_.Length()));
      StartWrite(&in_flight_);
    }
    if (next.end.has_value()) EndCall(*next.end);
  }

  grpc::CallbackServerContext* const context_;  // gRPC's, until EndCall.
  const OpenCheckpointFile open_;
  StalledCall call_;
  v1::DownloadCheckpointRequest request_;
  // Only the read in flight uses these.
  CheckpointFile file_;
  int64_t at_ = 0;

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true, writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool last_ ABSL_GUARDED_BY(mutex_) = false;  // The last chunk was read.
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::optional<grpc::ByteBuffer> next_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer in_flight_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendCheckpointFile(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request,
                                                               OpenCheckpointFile open,
                                                               const BulkResources& resources) {
  return BulkWriteReactor::Begin(
      std::make_shared<CheckpointReactor>(context, std::move(open), resources), *request);
}

}  // namespace longhaul::coordinator
