#include "common/rpc/fragment_client.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul {
namespace {

using grpc::internal::RpcMethod;

// The limit for any fragment. It bounds what an answer may name.
constexpr int64_t kFragmentElementsMax = int64_t{1} << 40;
constexpr char kPushMethod[] = "/longhaul.v1.SyncService/PushFragment";

absl::StatusOr<v1::PushResponse> PushPart(const std::shared_ptr<grpc::Channel>& channel,
                                          v1::PushHeader header, CodedSource source,
                                          const BulkCall& options, const std::stop_token& stop,
                                          WireBytes& wire) {
  *header.mutable_blocks() = BlocksToProto(BlocksOf(source.segments));
  header.set_payload_bytes(source.payload_bytes());
  v1::PushMessage first;
  *first.mutable_header() = std::move(header);

  ClientCall call(stop, options.deadline);
  v1::PushResponse response;
  using Factory = grpc::internal::ClientWriterFactory<grpc::ByteBuffer>;
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      Factory::Create(channel.get(), RpcMethod(kPushMethod, RpcMethod::CLIENT_STREAMING),
                      &call.context(), &response));
  const auto write = [&](const grpc::ByteBuffer& message, int64_t payload_bytes) {
    wire.AddMessage(message.Length(), payload_bytes);
    return writer->Write(message);
  };
  // After a failed write the call has ended. Finish returns its status.
  bool open = write(SerializeToByteBuffer(first), 0);
  ChunkWriter chunks(std::move(source), options.chunk_size);
  while (open && !chunks.done()) {
    int64_t payload_bytes = 0;
    const grpc::ByteBuffer chunk = chunks.Next(&payload_bytes);
    if (options.pacer != nullptr) options.pacer->Wait(payload_bytes, stop);
    open = write(chunk, payload_bytes);
  }
  if (open) writer->WritesDone();
  LH_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
  return response;
}

}  // namespace

absl::StatusOr<v1::PushResponse> PushBlocks(BulkChannels channels, const v1::PushHeader& header,
                                            const CodedSource& source, const BulkCall& call) {
  LH_CHECK(!channels.empty() && !source.segments.empty(), "something to push, and a way");
  std::vector<CodedSource> parts = SplitSource(source, static_cast<int>(channels.size()));
  std::vector<v1::PushResponse> responses(parts.size());
  const auto push = [&](size_t i, const std::stop_token& stop, WireBytes& wire) -> absl::Status {
    LH_ASSIGN_OR_RETURN(responses[i],
                        PushPart(channels[i], header, std::move(parts[i]), call, stop, wire));
    return absl::OkStatus();
  };
  LH_RETURN_IF_ERROR(RunParts(parts.size(), call, push));
  v1::PushResponse result;
  // Responses of parts that do not complete the contribution are empty, so merging them changes
  // nothing.
  for (const v1::PushResponse& response : responses) result.MergeFrom(response);
  return result;
}

absl::StatusOr<HeldBlocks> GetContribution(const std::shared_ptr<grpc::Channel>& channel,
                                           const v1::PushHeader& header, const BulkCall& call) {
  v1::GetContributionRequest request;
  request.set_job_id(header.job_id());
  request.set_pool(header.pool());
  request.set_incarnation(header.incarnation());
  request.set_fragment(header.fragment());
  request.set_version(header.version());
  request.set_kind(header.kind());
  ClientCall client_call(call.stop, call.deadline);
  v1::GetContributionResponse response;
  LH_RETURN_IF_ERROR(FromGrpcStatus(v1::SyncService::NewStub(channel)->GetContribution(
      &client_call.context(), request, &response)));
  HeldBlocks held{BlocksFromProto(response.blocks()), response.complete()};
  if (!held.blocks.empty()) LH_RETURN_IF_ERROR(CheckBlocksField(held.blocks, kFragmentElementsMax));
  return held;
}

}  // namespace longhaul
