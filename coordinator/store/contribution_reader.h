// The coded contributions of one round, as they lie in the log, read tile by tile. Ranks of
// different pools may cut a tile at different blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "coordinator/outer/weighted_mean.h"
#include "coordinator/store/log.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// Immutable; reads from several threads, each with a Buffer of its own. Memory: the segments'
// headers, and in a Buffer the coded bytes of one tile.
class ContributionReader {
  struct Placed {
    SegmentRef segment;
    LogPosition position;
    int64_t payload_bytes = 0;
    const Codec* codec = nullptr;
  };
  struct Source {
    float weight = 1;              // Of its codes: the pool's share in the mean.
    std::vector<Placed> segments;  // By first block.
  };

 public:
  // What a tile is read into; used for one tile after another.
  class Buffer {
    friend class ContributionReader;
    struct Loaded {
      const Source* source;
      const Placed* placed;
      int64_t offset;  // In coded_.
    };
    SegmentView ViewOf(const Loaded& loaded) const;
    std::vector<uint8_t> coded_;
    std::vector<Loaded> loaded_;
  };

  // `log` outlives the reader. INVALID_ARGUMENT: a contribution does not hold every block once, or
  // a weight is not a number in [2^-40, 2^40] (kept there so that no sum of weighted values can
  // overflow).
  static absl::StatusOr<ContributionReader> Create(const Log* log, int64_t fragment_elements,
                                                   absl::Span<const Contribution> contributions);

  // Fills `mean` with the contributions to the tile that begins at `first_block`; they stay valid
  // until the buffer's next use.
  absl::Status ReadTile(int64_t first_block, int64_t elements, Buffer* buffer,
                        WeightedMean* mean) const;
  // Decodes the tile of the only contribution: a seed, bit for bit.
  absl::Status ReadSeed(int64_t first_block, Buffer* buffer, absl::Span<float> out) const;

 private:
  ContributionReader() = default;
  absl::StatusOr<const Codec*> CodecOf(CodecKind kind);
  absl::StatusOr<Source> Place(const Contribution& contribution, int64_t fragment_elements);
  // Loads the segments of `source` in [first_block, end_block) behind what is loaded.
  absl::Status Load(const Source& source, int64_t first_block, int64_t end_block,
                    Buffer* buffer) const;

  const Log* log_ = nullptr;
  std::map<CodecKind, std::unique_ptr<Codec>> codecs_;
  std::vector<Source> sources_;
};

}  // namespace longhaul
