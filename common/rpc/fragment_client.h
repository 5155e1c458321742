// The client's side of a push: blocking calls for background threads. Thread-safe, since they keep
// no state. fragment_pull.h has the pull.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/bulk_call.h"
#include "grpcpp/channel.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// Sends one rank's blocks of a contribution, or those that the server lacks. Sets header.blocks and
// header.payload_bytes from the source. Over several channels the source is split into that many
// streams. The contribution is complete if one of the responses says so. Returns the server's
// status (see SyncService.PushFragment) of the first stream that failed.
absl::StatusOr<v1::PushResponse> PushBlocks(BulkChannels channels, const v1::PushHeader& header,
                                            const CodedSource& source, const BulkCall& call);

struct HeldBlocks {
  // Disjoint, ascending.
  std::vector<BlockRange> blocks;
  // All blocks of the fragment are there: the contribution counts.
  bool complete = false;
};

// What the server holds of the contribution that `header` names. With it a push continues after
// another one broke: send Missing(source, blocks). Returns the server's status (see
// SyncService.GetContribution), or INVALID_ARGUMENT for a malformed answer. call.wire is not used.
absl::StatusOr<HeldBlocks> GetContribution(const std::shared_ptr<grpc::Channel>& channel,
                                           const v1::PushHeader& header, const BulkCall& call);

}  // namespace longhaul
