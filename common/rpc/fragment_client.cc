#include "common/rpc/fragment_client.h"

#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"

namespace longhaul {
namespace {

using grpc::internal::RpcMethod;

constexpr char kPushMethod[] = "/longhaul.v1.SyncService/PushFragment";
constexpr char kPullMethod[] = "/longhaul.v1.SyncService/PullFragment";

// Runs part 0 .. parts-1 at once, the last on the calling thread. The first failure stops the
// others and is returned.
absl::Status RunParts(size_t parts, const std::stop_token& stop,
                      absl::FunctionRef<absl::Status(size_t, std::stop_token)> part) {
  std::stop_source group;
  const std::stop_callback forward(stop, [&group] { group.request_stop(); });
  absl::Mutex mutex;
  absl::Status first;
  const auto run = [&](size_t i) {
    const absl::Status status = part(i, group.get_token());
    if (status.ok()) return;
    {
      absl::MutexLock lock(&mutex);
      first.Update(status);
    }
    group.request_stop();
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i + 1 < parts; ++i) threads.emplace_back(run, i);
  run(parts - 1);
  threads.clear();  // Joins.
  return first;
}

// One call on one channel. Cancelled by a stop request at any time, also before it begins.
class Call {
 public:
  Call(const std::stop_token& stop, absl::Time deadline)
      : cancel_(stop, [this] { context_.TryCancel(); }) {
    context_.set_deadline(absl::ToChronoTime(deadline));
  }
  grpc::ClientContext& context() { return context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> cancel_;
};

absl::StatusOr<v1::PushResponse> PushPart(const std::shared_ptr<grpc::Channel>& channel,
                                          v1::PushHeader header, CodedSource source,
                                          absl::Time deadline, const std::stop_token& stop,
                                          WireBytes& wire) {
  *header.mutable_blocks() = BlocksToProto(BlocksOf(source.segments));
  header.set_payload_bytes(source.payload_bytes());
  v1::PushMessage first;
  *first.mutable_header() = std::move(header);

  Call call(stop, deadline);
  v1::PushResponse response;
  using Factory = grpc::internal::ClientWriterFactory<grpc::ByteBuffer>;
  const std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      Factory::Create(channel.get(), RpcMethod(kPushMethod, RpcMethod::CLIENT_STREAMING),
                      &call.context(), &response));
  const auto write = [&](const grpc::ByteBuffer& message, int64_t payload_bytes) {
    wire.AddMessage(message.Length(), payload_bytes);
    return writer->Write(message);
  };
  // A failed write means that the call has ended; Finish has its status.
  bool open = write(SerializeToByteBuffer(first), 0);
  ChunkWriter chunks(std::move(source));
  while (open && !chunks.done()) {
    int64_t payload_bytes = 0;
    const grpc::ByteBuffer chunk = chunks.Next(&payload_bytes);
    open = write(chunk, payload_bytes);
  }
  if (open) writer->WritesDone();
  LH_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
  return response;
}

using PullReader = grpc::ClientReader<grpc::ByteBuffer>;

// Reads a pull to the end of its stream, which the server may have ended with an error of its own:
// then what is missing here is not the error to report. The flag `ended` tells.
absl::StatusOr<PulledBlocks> ReadPull(PullReader& reader, const v1::PullRequest& request,
                                      const PullHeaderCheck& check, WireBytes& wire, bool& ended) {
  grpc::ByteBuffer message;
  ended = !reader.Read(&message);
  if (ended) return absl::DataLossError("a pull ended before its header");
  wire.AddMessage(message.Length(), 0);
  v1::PullMessage first;
  LH_RETURN_IF_ERROR(ParseFromByteBuffer(message, &first));
  if (!first.has_header() || first.segments_size() > 0 || !first.payload().empty()) {
    return absl::InvalidArgumentError(
        "the first message of a pull has the header and nothing else");
  }
  PulledBlocks result;
  result.header = std::move(*first.mutable_header());
  LH_ASSIGN_OR_RETURN(StreamLimits limits, check(result.header));
  LH_ASSIGN_OR_RETURN(BlockAssembler assembler,
                      BlockAssembler::Create({.fragment = request.fragment(),
                                              .blocks = BlocksFromProto(request.blocks()),
                                              .payload_bytes = result.header.payload_bytes()},
                                             std::move(limits)));
  while (reader.Read(&message)) LH_RETURN_IF_ERROR(assembler.Add(message, wire));
  ended = true;
  LH_ASSIGN_OR_RETURN(result.blocks, std::move(assembler).Finish());
  return result;
}

absl::StatusOr<PulledBlocks> PullPart(const std::shared_ptr<grpc::Channel>& channel,
                                      const v1::PullRequest& request, const PullHeaderCheck& check,
                                      absl::Time deadline, const std::stop_token& stop,
                                      WireBytes& wire) {
  Call call(stop, deadline);
  using Factory = grpc::internal::ClientReaderFactory<grpc::ByteBuffer>;
  const std::unique_ptr<PullReader> reader(
      Factory::Create(channel.get(), RpcMethod(kPullMethod, RpcMethod::SERVER_STREAMING),
                      &call.context(), request));
  bool ended = false;
  absl::StatusOr<PulledBlocks> result = ReadPull(*reader, request, check, wire, ended);
  if (!ended) {
    call.context().TryCancel();
    reader->Finish();
    return result;
  }
  LH_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish()));
  return result;
}

}  // namespace

absl::StatusOr<v1::PushResponse> PushBlocks(BulkChannels channels, v1::PushHeader header,
                                            const CodedSource& source, const BulkCall& call) {
  LH_CHECK(!channels.empty() && !source.segments.empty(), "something to push, and a way");
  std::vector<CodedSource> parts = SplitSource(source, static_cast<int>(channels.size()));
  std::vector<WireBytes> wire(parts.size());
  std::vector<v1::PushResponse> responses(parts.size());
  const absl::Status status =
      RunParts(parts.size(), call.stop, [&](size_t i, std::stop_token stop) -> absl::Status {
        LH_ASSIGN_OR_RETURN(responses[i], PushPart(channels[i], header, std::move(parts[i]),
                                                   call.deadline, stop, wire[i]));
        return absl::OkStatus();
      });
  v1::PushResponse result;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (call.wire != nullptr) *call.wire += wire[i];
    result.MergeFrom(
        responses[i]);  // A part that does not complete the contribution changes nothing.
  }
  LH_RETURN_IF_ERROR(status);
  return result;
}

absl::StatusOr<std::vector<PulledBlocks>> PullBlocks(BulkChannels channels,
                                                     const v1::PullRequest& request,
                                                     const PullHeaderCheck& check,
                                                     const BulkCall& call) {
  LH_CHECK(!channels.empty() && request.blocks_size() > 0, "something to pull, and a way");
  const std::vector<std::vector<BlockRange>> parts =
      SplitBlocks(BlocksFromProto(request.blocks()), static_cast<int>(channels.size()));
  std::vector<WireBytes> wire(parts.size());
  std::vector<PulledBlocks> result(parts.size());
  const absl::Status status =
      RunParts(parts.size(), call.stop, [&](size_t i, std::stop_token stop) -> absl::Status {
        v1::PullRequest part = request;
        *part.mutable_blocks() = BlocksToProto(parts[i]);
        LH_ASSIGN_OR_RETURN(result[i],
                            PullPart(channels[i], part, check, call.deadline, stop, wire[i]));
        return absl::OkStatus();
      });
  for (const WireBytes& bytes : wire) {
    if (call.wire != nullptr) *call.wire += bytes;
  }
  LH_RETURN_IF_ERROR(status);
  return result;
}

}  // namespace longhaul
