// The outer parameters of one rank's blocks that a pull makes: decoded chunk by chunk, out of the
// memory in which they came, beside the parameters that hold until all of it is here and its digest
// is right.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/blocks/coded_blocks.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "worker/session/fragment_map.h"

namespace longhaul::session {

// Movable. Begin and Take of several parts may be called from several threads at once, of one part
// one after the other; everything else is externally synchronised. No call waits.
class PulledParameters {
 public:
  // `map` and `codec` outlive the object.
  struct Source {
    const FragmentMap* map = nullptr;
    const Codec* codec = nullptr;
    // What the decoded blocks are added to; null: they are the parameters themselves.
    std::shared_ptr<const std::vector<float>> base = nullptr;
    std::vector<float> values = {};  // Memory to work in, if there is some to reuse.
  };
  explicit PulledParameters(Source source);

  // Of how many parts the pull is. First.
  void SetParts(int parts);
  // A part begins, or begins again.
  void Begin(int part);
  // The part's next blocks, in order. INVALID_ARGUMENT: bytes that the codec refuses.
  absl::Status Take(int part, const CodedChunk& chunk);

  // Compares what the parts made with their digests. DATA_LOSS: one differs.
  absl::Status Verify(int64_t version, absl::Span<const Digest128> digests);
  // The parameters. Requires that Verify was OK.
  std::vector<float> Release() &&;

 private:
  struct Part {
    Digester digester;  // Of the blocks so far, while they are in cache.
  };

  const FragmentMap* map_;
  const Codec* codec_;
  std::shared_ptr<const std::vector<float>> base_;
  bool verified_ = false;
  std::vector<Part> parts_;
  std::vector<float> values_;
};

}  // namespace longhaul::session
