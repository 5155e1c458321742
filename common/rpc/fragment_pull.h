// The client's side of a pull, which goes on where it broke: a blocking call for background
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

// Whether an answer is what was asked for (version, codec), and its bounds. Called before anything
// is read, on the calling thread or, with several parts, on several threads at once.
using PullHeaderCheck = std::function<absl::StatusOr<StreamLimits>(const v1::PullHeader&)>;

// Where the blocks go. Calls for one part follow each other; those for several parts come from
// several threads at once. Blocking holds up the stream of that part alone.
struct PullSink {
  // A part begins. Also when it begins anew, at another version: what came of it before is void.
  std::function<void(int part)> on_begin;
  // The part's next blocks, verified, in place: the bytes live for the length of the call. An error
  // ends the pull's attempt; the chunk then does not count as taken.
  std::function<absl::Status(int part, const CodedChunk&)> on_chunk;
};

// Not thread-safe.
class FragmentPull {
 public:
  // Blocks that are pulled as one stream.
  struct Part {
    std::vector<BlockRange> blocks;
    // The first answer's: its digest covers all of `blocks`.
    v1::PullHeader header;
  };

  // Splits request.blocks into about `parts` streams.
  FragmentPull(v1::PullRequest request, int parts, PullHeaderCheck check, PullSink sink);

  // Asks for the blocks that are not here yet, one stream for each part, over the channels in turn.
  // OK: everything is here, and all parts are of one version. After an error another attempt goes
  // on from what was taken. Returns the server's status, that of the check or the sink, or of
  // IncomingMessage and ChunkVerifier for a malformed answer; UNAVAILABLE: the version moved on
  // (parts of the earlier one begin anew in the next attempt).
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

  absl::Status PullPart(int index, const std::shared_ptr<grpc::Channel>& channel,
                        absl::Time deadline, const std::stop_token& stop, WireBytes& wire);
  // Reads the answer to the end of its stream, which the server may have ended with an error of its
  // own: then what is missing here is not the error to report. `ended` tells.
  template <typename Reader>
  absl::Status Read(int index, Reader& reader, WireBytes& wire, bool& ended);
  absl::Status TakeHeader(int index, v1::PullHeader header);
  absl::Status CheckVersions();

  const v1::PullRequest request_;
  const PullHeaderCheck check_;
  const PullSink sink_;
  std::vector<State> parts_;
};

}  // namespace longhaul
