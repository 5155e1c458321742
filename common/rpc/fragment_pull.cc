#include "common/rpc/fragment_pull.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"

namespace longhaul {
namespace {

using grpc::internal::RpcMethod;

constexpr char kPullMethod[] = "/longhaul.v1.SyncService/PullFragment";

}  // namespace

FragmentPull::FragmentPull(v1::PullRequest request, int parts, PullHeaderCheck check, PullSink sink)
    : request_(std::move(request)), check_(std::move(check)), sink_(std::move(sink)) {
  LH_CHECK(request_.blocks_size() > 0, "something to pull");
  for (std::vector<BlockRange>& blocks : SplitBlocks(BlocksFromProto(request_.blocks()), parts)) {
    parts_.push_back({.part = {.blocks = blocks}, .missing = blocks});
  }
}

absl::Status FragmentPull::Attempt(BulkChannels channels, const BulkCall& call) {
  LH_CHECK(!channels.empty(), "a way to pull");
  std::vector<int> wanted;
  for (int i = 0; i < parts(); ++i) {
    if (!parts_[i].missing.empty()) wanted.push_back(i);
  }
  const size_t streams = std::min(wanted.size(), channels.size());
  const auto pull = [&](size_t stream, const std::stop_token& stop,
                        WireBytes& wire) -> absl::Status {
    ChunkSize size = call.chunk_size;
    for (size_t i = stream; i < wanted.size(); i += streams) {
      const State& state = parts_[wanted[i]];
      while (!state.missing.empty()) {
        const bool begun = state.begun;
        const absl::Status pulled =
            PullBlocks(wanted[i], Wanted(state, size), channels[stream], call.deadline, stop, wire);
        // The rest was of another version. The part begins again at once.
        if (begun && !state.begun) continue;
        LH_RETURN_IF_ERROR(pulled);
        size.Passed();
      }
    }
    return absl::OkStatus();
  };
  if (!wanted.empty()) LH_RETURN_IF_ERROR(RunParts(streams, call, pull));
  return CheckVersions();
}

std::vector<BlockRange> FragmentPull::Wanted(const State& state, const ChunkSize& size) {
  // The digest in the first answer is that of the blocks of its request, so it is for all of them.
  if (size.full() || !state.begun) return state.missing;
  const int64_t block_bytes =
      CeilDiv(state.part.header.payload_bytes(), BlocksIn(state.part.blocks));
  const BlockRange& next = state.missing.front();
  const int64_t count = std::max(size.bytes() / std::max(block_bytes, int64_t{1}), int64_t{1});
  return {{next.first, std::min(count, next.count)}};
}

absl::Status FragmentPull::PullBlocks(int index, const std::vector<BlockRange>& blocks,
                                      const std::shared_ptr<grpc::Channel>& channel,
                                      absl::Time deadline, const std::stop_token& stop,
                                      WireBytes& wire) {
  v1::PullRequest request = request_;
  *request.mutable_blocks() = BlocksToProto(blocks);
  ClientCall call(stop, deadline);
  using Factory = grpc::internal::ClientReaderFactory<grpc::ByteBuffer>;
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      Factory::Create(channel.get(), RpcMethod(kPullMethod, RpcMethod::SERVER_STREAMING),
                      &call.context(), request));
  bool ended = false;
  const absl::Status read = Read(index, blocks, *reader, wire, ended);
  if (!ended) {
    call.context().TryCancel();
    reader->Finish();
    return read;
  }
  LH_RETURN_IF_ERROR(FromGrpcStatus(reader->Finish()));
  return read;
}

template <typename Reader>
absl::Status FragmentPull::Read(int index, const std::vector<BlockRange>& blocks, Reader& reader,
                                WireBytes& wire, bool& ended) {
  State& state = parts_[index];
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
  LH_ASSIGN_OR_RETURN(StreamLimits limits, check_(first.header()));
  LH_ASSIGN_OR_RETURN(ChunkVerifier verifier,
                      ChunkVerifier::Create({.fragment = request_.fragment(),
                                             .blocks = blocks,
                                             .payload_bytes = first.header().payload_bytes()},
                                            std::move(limits)));
  LH_RETURN_IF_ERROR(TakeHeader(index, blocks, std::move(*first.mutable_header())));
  while (reader.Read(&message)) {
    LH_ASSIGN_OR_RETURN(const CodedChunk chunk, verifier.Verify(message, wire));
    message.Clear();
    LH_RETURN_IF_ERROR(sink_.on_chunk(index, chunk));
    state.missing = Missing(state.missing, BlocksOf(chunk.segments));
  }
  ended = true;
  return verifier.Finish();
}

absl::Status FragmentPull::TakeHeader(int index, const std::vector<BlockRange>& blocks,
                                      v1::PullHeader header) {
  State& state = parts_[index];
  const int64_t version = state.part.header.version();
  if (state.begun && header.version() == version) return absl::OkStatus();
  state.missing = state.part.blocks;
  state.begun = blocks == state.part.blocks;
  if (!state.begun) {
    // If only the rest were pulled, it would be of the new version, and so would the digest.
    return absl::UnavailableError(absl::StrCat("version ", header.version(),
                                               " came after a part of ", version, " was pulled"));
  }
  state.part.header = std::move(header);
  sink_.on_begin(index);
  return absl::OkStatus();
}

absl::Status FragmentPull::CheckVersions() {
  int64_t newest = 0;
  for (const State& state : parts_) newest = std::max(newest, state.part.header.version());
  absl::Status status;
  for (State& state : parts_) {
    if (state.part.header.version() == newest) continue;
    state.begun = false;
    state.missing = state.part.blocks;
    status = absl::UnavailableError("a commit was applied between the parts of a fragment");
  }
  return status;
}

}  // namespace longhaul
