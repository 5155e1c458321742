#include "coordinator/service/upload_stream.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
namespace {

// All uploads together count as one owner of the memory for bulk streams.
constexpr char kUploadOwner[] = "@upload";

// Either a read of gRPC or a task of the executor is in flight, never both. The one that ends starts
// the next. The stall alarm may come while a read is in flight.
class UploadReactor final : public grpc::ServerReadReactor<v1::UploadFileRequest> {
 public:
  UploadReactor(v1::UploadFileResponse* response, UploadHandler handler,
                const BulkResources& resources)
      : response_(response), handler_(std::move(handler)), resources_(resources) {}

  // `self` is this, until the call is done.
  void Start(const grpc::CallbackServerContext& context,
             const std::shared_ptr<UploadReactor>& self) {
    self_ = self;
    if (const absl::Status status = Admit(context); !status.ok()) return End(status);
    watch_->Start([self] { self->Stalled(); });
    Read();
  }

  void OnReadDone(bool ok) override {
    watch_->Pause();
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (ended_) return;  // Stalled.
    }
    const bool posted = resources_.executor->Submit([self = self_, ok] {
      if (ok) {
        self->Take();
      } else {
        self->Complete();
      }
    });
    if (!posted) End(TooManyBulkCalls());
  }

  // Releases what only the call needs, since a late alarm may keep the object for a moment.
  void OnDone() override {
    watch_->Stop();
    file_.reset();
    handler_ = {};
    ticket_ = {};
    const std::shared_ptr<UploadReactor> last = std::move(self_);
  }

 private:
  absl::Status Admit(const grpc::CallbackServerContext& context) {
    LH_RETURN_IF_ERROR(CheckBulkDeadline(context, resources_.deadline_max));
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit(kUploadOwner, 2 * kUploadChunkMax));
    return absl::OkStatus();
  }

  void Read() {
    bool stalled;
    {
      absl::MutexLock lock(&mutex_);
      stalled = stalled_;
      reading_ = !stalled;
    }
    if (stalled) return End(StalledError(resources_.stall));
    watch_->Expect(kUploadChunkMax);
    StartRead(&message_);
  }

  absl::Status TakeMessage() {
    if (file_ == nullptr) {
      if (message_.upload().empty() || !message_.data().empty()) {
        return WithErrorInfo(
            absl::InvalidArgumentError("the first message names the upload, and has no data"),
            {"MISSING_HEADER", {}});
      }
      LH_ASSIGN_OR_RETURN(file_, handler_.open(message_));
      return absl::OkStatus();
    }
    const auto bytes = static_cast<int64_t>(message_.data().size());
    if (bytes > kUploadChunkMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message has ", bytes, " bytes of data, more than ", kUploadChunkMax));
    }
    LH_RETURN_IF_ERROR(file_->Append(message_.data()));
    handler_.on_taken(bytes);
    return absl::OkStatus();
  }

  // On the executor.
  void Take() {
    if (const absl::Status taken = TakeMessage(); !taken.ok()) return End(handler_.explain(taken));
    Read();
  }

  // On the executor. The peer has sent everything, or is gone.
  void Complete() {
    if (file_ == nullptr) {
      return End(WithErrorInfo(absl::InvalidArgumentError("an upload without a first message"),
                               {"MISSING_HEADER", {}}));
    }
    const absl::StatusOr<IncomingFile::Ended> ended = file_->Finish();
    if (!ended.ok()) return End(handler_.explain(ended.status()));
    response_->set_bytes(ended->file.bytes);
    response_->set_verified(ended->file.verified);
    response_->set_complete(ended->complete);
    End(absl::OkStatus());
  }

  // From the alarm, while a read is in flight: no bytes have come for too long.
  void Stalled() {
    {
      absl::MutexLock lock(&mutex_);
      stalled_ = true;
      // A message that came just before is taken first; then Read ends the call.
      if (ended_ || !reading_) return;
      ended_ = true;
    }
    const absl::Status stalled = StalledError(resources_.stall);
    handler_.on_end(stalled);
    Finish(ToGrpcStatus(stalled));
  }

  // Must be the last call: the object may be gone when Finish returns.
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    // Before the answer, so that a client that has it can continue the file at once.
    file_.reset();
    handler_.on_end(status);
    Finish(ToGrpcStatus(status));
  }

  v1::UploadFileResponse* const response_;  // gRPC's, until Finish.
  UploadHandler handler_;
  const BulkResources resources_;
  const std::shared_ptr<StallWatch> watch_ = std::make_shared<StallWatch>(resources_.stall);
  std::shared_ptr<UploadReactor> self_;  // Until OnDone.
  StreamAdmission::Ticket ticket_;
  // Used by the read or task in flight. `file_` is set by the first message.
  v1::UploadFileRequest message_;
  std::unique_ptr<IncomingFile> file_;

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadFileRequest>* ReceiveUploadFile(
    grpc::CallbackServerContext* context, v1::UploadFileResponse* response, UploadHandler handler,
    const BulkResources& resources) {
  auto reactor = std::make_shared<UploadReactor>(response, std::move(handler), resources);
  reactor->Start(*context, reactor);
  return reactor.get();
}

}  // namespace longhaul::coordinator
