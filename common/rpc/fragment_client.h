// The client's side of a push: blocking calls for background threads. Thread-safe (no state of
// their own). A pull is in fragment_pull.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/bulk_call.h"
#include "grpcpp/channel.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// Sends one rank's blocks of a contribution, or those of them that the server lacks.
// header.blocks and header.payload_bytes are set from the source. Over several channels the source
// is split into that many streams; the contribution is complete when any of them says so. Returns
// the server's status (see SyncService.PushFragment), the first that failed.
absl::StatusOr<v1::PushResponse> PushBlocks(BulkChannels channels, const v1::PushHeader& header,
                                            const CodedSource& source, const BulkCall& call);

struct HeldBlocks {
  std::vector<BlockRange> blocks;  // Disjoint, ascending.
  bool complete = false;           // All of the fragment: the contribution counts.
};

// What the server holds of the contribution that `header` names, for a push that goes on where
// another broke: send Missing(source, blocks). Returns the server's status (see
// SyncService.GetContribution), INVALID_ARGUMENT for a malformed answer. call.wire is not used.
absl::StatusOr<HeldBlocks> GetContribution(const std::shared_ptr<grpc::Channel>& channel,
                                           const v1::PushHeader& header, const BulkCall& call);

}  // namespace longhaul
