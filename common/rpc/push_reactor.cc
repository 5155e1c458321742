#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"

namespace longhaul {
namespace {

// Header, chunks, end of the stream, then the executor; an error ends the call at once. gRPC makes
// one callback at a time, and none between the stream's end and Finish but OnCancel (not used:
// reads fail by themselves), so no lock is needed.
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
    if (!ok) {
      Complete();
      return;
    }
    const absl::Status status = assembler_ ? assembler_->Add(message_, wire_) : Begin();
    if (!status.ok()) {
      End(status);
      return;
    }
    message_.Clear();
    StartRead(&message_);
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Begin() {
    wire_.AddMessage(message_.Length(), 0);
    LH_ASSIGN_OR_RETURN(const IncomingMessage first, IncomingMessage::Parse(message_));
    v1::PushMessage message;
    if (!message.ParseFromArray(first.rest().data(), static_cast<int>(first.rest().size())) ||
        !message.has_header() || message.segments_size() > 0 || first.payload_bytes() > 0) {
      return WithErrorInfo(
          absl::InvalidArgumentError("the first message of a push has the header and nothing else"),
          {"MISSING_HEADER", {}});
    }
    header_ = std::move(*message.mutable_header());
    LH_ASSIGN_OR_RETURN(StreamLimits limits, handler_.on_header(header_));
    LH_ASSIGN_OR_RETURN(BlockAssembler assembler,
                        BlockAssembler::Create({.fragment = header_.fragment(),
                                                .blocks = BlocksFromProto(header_.blocks()),
                                                .payload_bytes = header_.payload_bytes()},
                                               std::move(limits)));
    LH_ASSIGN_OR_RETURN(ticket_, resources_.admission->Admit(header_.payload_bytes()));
    assembler_.emplace(std::move(assembler));
    return absl::OkStatus();
  }

  // The peer has sent all, or is gone; in the second case nobody reads the status.
  void Complete() {
    if (!assembler_) {
      End(WithErrorInfo(absl::InvalidArgumentError("a push without a header"),
                        {"MISSING_HEADER", {}}));
      return;
    }
    absl::StatusOr<CodedBlocks> blocks = std::move(*assembler_).Finish();
    if (!blocks.ok()) {
      End(blocks.status());
      return;
    }
    const bool accepted =
        resources_.executor->Submit([this, blocks = *std::move(blocks)]() mutable {
          absl::StatusOr<v1::PushResponse> response =
              handler_.on_complete(header_, std::move(blocks));
          if (response.ok()) *response_ = SerializeToByteBuffer(*response);
          End(response.status());
        });
    if (!accepted) End(TooManyBulkCalls());
  }

  // The last thing that is done: the object may be gone when Finish returns.
  void End(const absl::Status& status) {
    if (handler_.on_end) handler_.on_end(status, wire_);
    Finish(ToGrpcStatus(status));
  }

  grpc::ByteBuffer* const response_;  // gRPC's, until Finish.
  const PushHandler handler_;
  const BulkResources resources_;
  grpc::ByteBuffer message_;
  v1::PushHeader header_;
  StreamAdmission::Ticket ticket_;
  std::optional<BlockAssembler> assembler_;  // Once the header was accepted.
  WireBytes wire_;
};

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ReceivePush(grpc::CallbackServerContext* context,
                                                       grpc::ByteBuffer* response,
                                                       PushHandler handler,
                                                       const BulkResources& resources) {
  return new PushReactor(context, response, std::move(handler), resources);
}

}  // namespace longhaul
