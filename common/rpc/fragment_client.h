// The client's side of the bulk streams: blocking calls for background threads. Thread-safe (no
// state of their own).
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/rpc/block_assembler.h"
#include "common/rpc/coded_blocks.h"
#include "common/rpc/wire_bytes.h"
#include "grpcpp/channel.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

using BulkChannels = absl::Span<const std::shared_ptr<grpc::Channel>>;

struct BulkCall {
  absl::Time deadline;   // Required: the server refuses endless calls.
  std::stop_token stop;  // A stop request cancels the call from any thread: CANCELLED.
  // Optional: what was sent or received is added, whether the call succeeds or not.
  WireBytes* wire = nullptr;
};

// Sends one rank's blocks of a contribution. header.blocks and header.payload_bytes are set from
// the source. Over several channels the source is split into that many streams; the contribution is
// complete when any of them says so. Returns the server's status (see SyncService.PushFragment),
// the first that failed.
absl::StatusOr<v1::PushResponse> PushBlocks(BulkChannels channels, v1::PushHeader header,
                                            const CodedSource& source, const BulkCall& call);

struct PulledBlocks {
  v1::PullHeader header;
  CodedBlocks blocks;
};

// Whether an answer is what was asked for (version, codec), and its bounds. Called before anything
// is allocated, on the calling thread or, with several channels, on several threads at once.
using PullHeaderCheck = std::function<absl::StatusOr<StreamLimits>(const v1::PullHeader&)>;

// Fetches request.blocks. Over several channels the blocks are split into that many streams; the
// parts come back in the order of their blocks, each with its header (whose digest covers the
// part's blocks). Returns the server's status, that of `check`, or of IncomingMessage and
// BlockAssembler for a malformed answer.
absl::StatusOr<std::vector<PulledBlocks>> PullBlocks(BulkChannels channels,
                                                     const v1::PullRequest& request,
                                                     const PullHeaderCheck& check,
                                                     const BulkCall& call);

}  // namespace longhaul
