#include "coordinator/service/upload_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/bulk_reactor.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/received_chunks.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace longhaul::coordinator {
namespace {

// All uploads together count as one owner of the memory for bulk streams.
constexpr char kUploadOwner[] = "@upload";

// With a copy of its data.
absl::StatusOr<v1::UploadFileRequest> Parsed(grpc::ByteBuffer message) {
  v1::UploadFileRequest request;
  if (!grpc::SerializationTraits<v1::UploadFileRequest>::Deserialize(&message, &request).ok())
    return absl::InvalidArgumentError("a message is not a valid UploadFileRequest");
  return request;
}

// gRPC's callbacks read the messages, and the executor's task takes them.
class UploadReactor final : public BulkReadReactor {
 public:
  UploadReactor(grpc::ByteBuffer* response, UploadHandler handler, const BulkResources& resources)
      : BulkReadReactor(resources),
        response_(response),
        handler_(std::move(handler)),
        messages_(
            resources.executor,
            {.read = [this] { Read(); },
             .take = [this](const grpc::ByteBuffer& message) { return Explained(Take(message)); },
             .complete = [this] { return Explained(Complete()); },
             .end = [this](const absl::Status& status) { End(status); }}) {}

  void Start(const grpc::CallbackServerContext& context) {
    absl::Status status = CheckDeadline(context);
    if (status.ok()) status = Admit(kUploadOwner, Messages::kHeldMax * kUploadChunkMax);
    if (!status.ok()) return messages_.Refuse(status);
    messages_.SetOwner(kUploadOwner);
    Watch([this] { messages_.Close(StalledError(resources().stall)); });
    Read();
  }

  void OnReadDone(bool ok) override {
    watch().Pause();
    if (!ok) return messages_.Close(absl::OkStatus());
    // No more waits for the executor than the share of the memory is for.
    if (const auto bytes = static_cast<int64_t>(message_.Length());
        bytes > kUploadChunkMax + kRestBytesMax) {
      message_.Clear();
      return messages_.Close(Explained(absl::InvalidArgumentError(absl::StrCat(
          "a message has ", bytes, " bytes, more than ", kUploadChunkMax + kRestBytesMax))));
    }
    messages_.Add(std::exchange(message_, {}));
  }

 private:
  using Messages = ReceivedChunks<grpc::ByteBuffer>;

  void Release() override { handler_ = {}; }

  // From any thread; one read at a time.
  void Read() {
    watch().Expect(kUploadChunkMax);
    StartRead(&message_);
  }

  absl::Status Explained(const absl::Status& status) {
    return status.ok() ? status : handler_.explain(status);
  }

  // On the executor, like what follows.
  absl::Status Take(const grpc::ByteBuffer& message) {
    if (file_ == nullptr) return Open(message);
    const absl::StatusOr<IncomingMessage> parts =
        IncomingMessage::Parse(message, v1::UploadFileRequest::kDataFieldNumber);
    // Other clients may order the fields in another way.
    if (!parts.ok()) return TakeCopy(message);
    std::vector<absl::string_view> pieces;
    for (const absl::Span<const uint8_t> piece : parts->payload())
      pieces.emplace_back(reinterpret_cast<const char*>(piece.data()), piece.size());
    LH_RETURN_IF_ERROR(file_->Append(pieces));
    handler_.on_taken(parts->payload_bytes());
    return absl::OkStatus();
  }

  absl::Status Open(const grpc::ByteBuffer& message) {
    LH_ASSIGN_OR_RETURN(const v1::UploadFileRequest first, Parsed(message));
    if (first.upload().empty() || !first.data().empty())
      return MissingHeader("the first message names the upload, and has no data");
    LH_ASSIGN_OR_RETURN(file_, handler_.open(first));
    return absl::OkStatus();
  }

  absl::Status TakeCopy(const grpc::ByteBuffer& message) {
    LH_ASSIGN_OR_RETURN(const v1::UploadFileRequest chunk, Parsed(message));
    const auto bytes = static_cast<int64_t>(chunk.data().size());
    if (bytes > kUploadChunkMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a message has ", bytes, " bytes of data, more than ", kUploadChunkMax));
    }
    LH_RETURN_IF_ERROR(file_->Append(chunk.data()));
    handler_.on_taken(bytes);
    return absl::OkStatus();
  }

  // The peer has sent everything, or is gone.
  absl::Status Complete() {
    if (file_ == nullptr) return MissingHeader("the first message of the upload is missing");
    LH_ASSIGN_OR_RETURN(const IncomingFile::Ended ended, file_->Finish());
    v1::UploadFileResponse response;
    response.set_bytes(ended.file.bytes);
    response.set_verified(ended.file.verified);
    response.set_complete(ended.complete);
    *response_ = SerializeToByteBuffer(response);
    return absl::OkStatus();
  }

  // The last step, as EndCall.
  void End(const absl::Status& status) {
    // Before the answer, so that a client that has it can continue the file at once.
    file_.reset();
    handler_.on_end(status);
    EndCall(status);
  }

  grpc::ByteBuffer* const response_;  // gRPC's, until EndCall.
  UploadHandler handler_;
  grpc::ByteBuffer message_;            // Used by the read in progress.
  std::unique_ptr<IncomingFile> file_;  // Used by the executor's task. Set by the first message.
  Messages messages_;
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ReceiveUploadFile(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response,
                                                             UploadHandler handler,
                                                             const BulkResources& resources) {
  return BulkReadReactor::Begin(
      std::make_shared<UploadReactor>(response, std::move(handler), resources), *context);
}

}  // namespace longhaul::coordinator
