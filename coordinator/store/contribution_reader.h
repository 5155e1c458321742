// Reads the coded contributions of one round from the log, tile by tile. Ranks of different pools
// may cut a tile at different blocks.
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

// Immutable. Several threads may read, each with its own Buffer. Memory: the headers of the
// segments; a Buffer holds the coded bytes of one tile.
class ContributionReader {
  struct StoredSegment {
    SegmentRef segment;
    LogPosition position;
    int64_t payload_bytes = 0;
    const Codec* codec = nullptr;
  };
  struct Source {
    // The pool's share in the mean.
    float weight = 1;
    // In the order of their first blocks.
    std::vector<StoredSegment> segments;
  };

 public:
  // Memory that a tile is read into. It is used for one tile after another.
  class Buffer {
    friend class ContributionReader;
    struct Loaded {
      const Source* source;
      const StoredSegment* stored;
      // Where the segment begins in coded_.
      int64_t offset;
    };
    SegmentView ViewOf(const Loaded& loaded) const;
    std::vector<uint8_t> coded_;
    std::vector<Loaded> loaded_;
  };

  // `log` outlives the reader. INVALID_ARGUMENT: a contribution does not hold every block exactly
  // once, or a weight is not a number in [2^-40, 2^40]. With these bounds no sum of weighted values
  // can overflow.
  static absl::StatusOr<ContributionReader> Create(const Log* log, int64_t fragment_elements,
                                                   absl::Span<const Contribution> contributions);

  // Fills `mean` with the contributions to the tile that begins at `first_block`. They stay valid
  // until the next use of the buffer.
  absl::Status ReadTile(int64_t first_block, int64_t elements, Buffer* buffer,
                        WeightedMean* mean) const;
  // Decodes a tile of a seed, which is one contribution, bit for bit.
  absl::Status ReadSeed(int64_t first_block, Buffer* buffer, absl::Span<float> out) const;

 private:
  ContributionReader() = default;
  absl::StatusOr<const Codec*> CodecOf(CodecKind kind);
  absl::StatusOr<Source> SourceOf(const Contribution& contribution, int64_t fragment_elements);
  // Loads the segments of `source` in [first_block, end_block), after those that are loaded
  // already.
  absl::Status Load(const Source& source, int64_t first_block, int64_t end_block,
                    Buffer* buffer) const;

  const Log* log_ = nullptr;
  std::map<CodecKind, std::unique_ptr<Codec>> codecs_;
  std::vector<Source> sources_;
};

}  // namespace longhaul
