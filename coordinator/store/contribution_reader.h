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

struct ContributionInput {
  std::string pool;
  double weight = 1;
  std::vector<StoredShard> shards;
};

// Not thread-safe. Memory: the segments' headers, and the coded bytes of one tile.
class ContributionReader {
 public:
  // `log` outlives the reader. INVALID_ARGUMENT: a contribution does not hold every block once, or
  // a weight is not a number in [2^-40, 2^40] (kept there so that no sum of weighted values can
  // overflow).
  static absl::StatusOr<ContributionReader> Create(const Log* log, int64_t fragment_elements,
                                                   absl::Span<const ContributionInput> inputs);

  // Fills `mean` with the contributions to the tile that begins at `first_block`; they stay valid
  // until the next call. Tiles are read in order, each once.
  absl::Status ReadTile(int64_t first_block, int64_t elements, WeightedMean* mean);
  // Decodes the tile of the only contribution: a seed, bit for bit.
  absl::Status ReadSeed(int64_t first_block, absl::Span<float> out);

 private:
  struct Placed {
    CodedSegment segment;
    LogPosition position;
    int64_t payload_bytes = 0;
    const Codec* codec = nullptr;
  };
  struct Source {
    float weight = 1;              // Of its codes: the pool's share in the mean.
    std::vector<Placed> segments;  // By first block.
    size_t next = 0;
  };

  ContributionReader() = default;
  absl::StatusOr<const Codec*> CodecOf(CodecKind kind);
  absl::StatusOr<Source> Place(const ContributionInput& input, int64_t fragment_elements);
  // Loads the segments of `source` up to `end_block`, one after another behind what is loaded.
  absl::Status Load(Source& source, int64_t end_block);

  const Log* log_ = nullptr;
  std::map<CodecKind, std::unique_ptr<Codec>> codecs_;
  std::vector<Source> sources_;
  std::vector<uint8_t> coded_;
  struct Loaded {
    const Source* source;
    const Placed* placed;
    int64_t offset;  // In coded_.
  };
  SegmentView ViewOf(const Loaded& loaded) const;
  std::vector<Loaded> loaded_;  // Of the tile.
};

}  // namespace longhaul
