// The client's side of a pull, which continues where it broke: a blocking call for background
// threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/blocks/coded_blocks.h"
#include "common/rpc/bulk_call.h"
#include "common/rpc/chunk_verifier.h"
#include "longhaul/v1/sync.pb.h"

namespace longhaul {

// Checks that an answer is the requested one (version, codec), and returns its bounds. Called
// before any blocks are read, on the calling thread or, with several parts, on several threads
// concurrently.
using PullHeaderCheck = std::function<absl::StatusOr<StreamLimits>(const v1::PullHeader&)>;

// Receives the blocks. Calls for one part follow each other. Calls for several parts come from
// several threads concurrently. A call that blocks delays only the stream of its part.
struct PullSink {
  // A part begins. If it begins again, at another version, its earlier blocks are invalid.
  std::function<void(int part)> on_begin;
  // The part's next blocks, verified. The bytes live until the call returns. An error ends this
  // attempt of the pull, and the chunk counts as not taken.
  std::function<absl::Status(int part, const CodedChunk&)> on_chunk;
};

// Not thread-safe.
class FragmentPull {
 public:
  // Blocks that are pulled as one stream.
  struct Part {
    std::vector<BlockRange> blocks;
    // The header of the first answer. Its digest covers all of `blocks`.
    v1::PullHeader header;
  };

  // Splits request.blocks into about `parts` streams.
  FragmentPull(v1::PullRequest request, int parts, PullHeaderCheck check, PullSink sink);

  // Requests the blocks that have not arrived yet, one stream for each part, one at a time on each
  // channel. While the chunks of a channel are not of full size, a part that has begun takes a
  // stream for each, since the server decides how large the chunks of a stream are. OK: all blocks
  // have arrived, and all parts have the same version. After an error the next attempt continues
  // with the blocks that are missing. Returns the server's status, that of the check or the sink,
  // or that of IncomingMessage and ChunkVerifier for a malformed answer. UNAVAILABLE: the version
  // changed meanwhile, and parts of the earlier one begin again in the next attempt. It may come at
  // once.
  absl::Status Attempt(BulkChannels channels, const BulkCall& call);

  int parts() const { return static_cast<int>(parts_.size()); }
  // The header is valid once the part began.
  const Part& part(int index) const { return parts_[index].part; }

 private:
  struct State {
    Part part;
    bool begun = false;
    std::vector<BlockRange> missing;
  };

  // What the next stream of a part asks for.
  static std::vector<BlockRange> Wanted(const State& state, const ChunkSize& size);
  absl::Status PullBlocks(int index, const std::vector<BlockRange>& blocks,
                          const std::shared_ptr<grpc::Channel>& channel, absl::Time deadline,
                          const std::stop_token& stop, WireBytes& wire);
  // Reads the answer to the end of its stream. `ended`: whether the stream ended. The server may
  // have ended it with an error, which is then reported instead of what is missing here.
  template <typename Reader>
  absl::Status Read(int index, const std::vector<BlockRange>& blocks, Reader& reader,
                    WireBytes& wire, bool& ended);
  // UNAVAILABLE: the part has begun at another version, so that it must begin again.
  absl::Status TakeHeader(int index, const std::vector<BlockRange>& blocks, v1::PullHeader header);
  absl::Status CheckVersions();

  const v1::PullRequest request_;
  const PullHeaderCheck check_;
  const PullSink sink_;
  std::vector<State> parts_;
};

}  // namespace longhaul
