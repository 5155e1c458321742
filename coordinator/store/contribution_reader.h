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

// Not thread-safe. Memory: the segments' headers, and the coded bytes of one segment.
class ContributionReader {
 public:
  // `log` outlives the reader. INVALID_ARGUMENT: a contribution does not hold every block once, or
  // a weight is not a number in [2^-40, 2^40] (kept there so that no sum of weighted values can
  // overflow).
  static absl::StatusOr<ContributionReader> Create(const Log* log, int64_t fragment_elements,
                                                   absl::Span<const ContributionInput> inputs);

  // Sets `mean` to D of the tile that begins at `first_block`, and returns it. Tiles are read in
  // order, each once.
  absl::StatusOr<absl::Span<float>> ReadMean(int64_t first_block, int64_t elements,
                                             WeightedMean* mean);
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
    float weight = 1;
    std::vector<Placed> segments;  // By first block.
    size_t next = 0;
  };

  ContributionReader() = default;
  absl::StatusOr<const Codec*> CodecOf(CodecKind kind);
  absl::StatusOr<Source> Place(const ContributionInput& input, int64_t fragment_elements);
  absl::StatusOr<absl::Span<const uint8_t>> Load(const Placed& placed);

  const Log* log_ = nullptr;
  std::map<CodecKind, std::unique_ptr<Codec>> codecs_;
  std::vector<Source> sources_;
  float weight_sum_ = 0;
  std::vector<uint8_t> coded_;
};

}  // namespace longhaul
