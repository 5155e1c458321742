// The weighted mean of the pools' decoded outer gradients over one tile, run by run, so that it
// never exists as a whole: D = sum_m (w_m / W) * deq(c_m), W = sum_m w_m.
//
// The arithmetic, in fp32, each operation rounded: W is the sum of the weights in the order of the
// contributions, beginning with 0; share_m = w_m / W; acc = 0, then for each contribution in order
// acc = acc + share_m * deq(c_m). One order for all elements, so the result does not depend on how
// ranks cut their segments.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace longhaul {

// W of the weights in order.
float SumWeights(absl::Span<const float> weights);

// The coded contributions to one tile; used for one tile after another. Not thread-safe.
class WeightedMean {
 public:
  // Begins a tile of 1 to kTileElements elements.
  void Reset(int64_t elements);
  // Adds one coded segment that begins `offset` elements into the tile, at a block. Segments of one
  // contribution are disjoint; all of it comes before the next contribution (they count from 0).
  // `codec` and the payload outlive the tile.
  void Add(const Codec& codec, float share, int64_t offset, const SegmentView& segment,
           int contribution);

  int64_t elements() const { return elements_; }
  // Sets `out` to D of the elements from `first` on; both at blocks, or at the tile's end. Errors:
  // as Codec::DecodeAccumulate.
  absl::Status Mean(int64_t first, absl::Span<float> out) const;
  // ||share_m * deq(c_m)||^2 of each contribution m, over those elements. `scratch`: as many as the
  // elements. Errors: as Mean.
  absl::StatusOr<std::vector<double>> Energies(int64_t first, absl::Span<float> scratch) const;

 private:
  struct Piece {
    const Codec* codec;
    float share;
    int64_t offset;
    SegmentView segment;
    int contribution;
  };
  // Adds the piece's elements of [first, first + out.size()) to `out`.
  static absl::Status Accumulate(const Piece& piece, int64_t first, absl::Span<float> out);

  std::vector<Piece> pieces_;
  int64_t elements_ = 0;
};

}  // namespace longhaul
