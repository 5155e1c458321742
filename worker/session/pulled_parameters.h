// The result of a pull: the outer parameters of one rank's blocks. Chunks are decoded as they
// arrive, straight from the memory of the stream. The current outer parameters stay in effect until
// all blocks are here and their digest was verified.
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

// A pull has several parts, one for each stream. Begin and Take may be called from several threads
// at once for different parts; everything else is externally synchronised. Movable. No call blocks.
class PulledParameters {
 public:
  // `map` and `codec` outlive the object.
  struct Source {
    const FragmentMap* map = nullptr;
    const Codec* codec = nullptr;
    // The decoded blocks are added to it. Null: they are the parameters themselves.
    std::shared_ptr<const std::vector<float>> base = nullptr;
    // Memory for the result, to be reused. May be empty.
    std::vector<float> values = {};
  };
  explicit PulledParameters(Source source);

  // Sets the number of parts. Call first.
  void SetParts(int parts);
  // Begins a part, or begins it again from the start.
  void Begin(int part);
  // Decodes the part's next blocks, in order. INVALID_ARGUMENT: the codec refuses the bytes.
  absl::Status Take(int part, const CodedChunk& chunk);

  // Compares the digest of each part's result with `digests`. DATA_LOSS: one differs.
  absl::Status Verify(int64_t version, absl::Span<const Digest128> digests);
  // Returns the parameters. Requires that Verify was OK.
  std::vector<float> Release() &&;

 private:
  struct Part {
    // Digests each block while it is still in the cache.
    Digester digester;
  };

  const FragmentMap* map_;
  const Codec* codec_;
  std::shared_ptr<const std::vector<float>> base_;
  bool verified_ = false;
  std::vector<Part> parts_;
  std::vector<float> values_;
};

}  // namespace longhaul::session
