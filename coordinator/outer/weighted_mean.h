// The weighted mean of the pools' decoded outer gradients over one tile: D = sum_m (w_m / W) *
// deq(c_m), W = sum_m w_m. It is computed run by run, so that D never exists as a whole.
//
// The arithmetic is fp32, and each operation is rounded. W is the sum of the weights in the order
// of the contributions, beginning with 0; share_m = w_m / W. An element begins with acc = 0; then
// for each contribution in order acc = acc + share_m * deq(c_m). The order is the same for all
// elements, so the result does not depend on how ranks cut their segments.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace longhaul {

// W: the sum of the weights in order.
float SumWeights(absl::Span<const float> weights);

// The coded contributions to one tile. It is used for one tile after another. Not thread-safe.
class WeightedMean {
 public:
  // Begins a tile of 1 to kTileElements elements.
  void Reset(int64_t elements);
  // Adds one coded segment. It begins `offset` elements into the tile, at a block. Segments of one
  // contribution are disjoint. Contributions count from 0, and come one after the other. `codec`
  // and the payload outlive the tile.
  void Add(const Codec& codec, float share, int64_t offset, const SegmentView& segment,
           int contribution);

  int64_t elements() const { return elements_; }
  // Sets `out` to D of the elements from `first` on. Both ends are at blocks, or at the tile's end.
  // Errors: those of Codec::DecodeAccumulate.
  absl::Status Mean(int64_t first, absl::Span<float> out) const;
  // Calls `take` with u_m = share_m * deq(c_m) of each contribution m, in order: the elements from
  // `first` on, as many as `scratch` has, which holds them. Errors: as Mean.
  using Take = absl::FunctionRef<void(int contribution, absl::Span<const float> values)>;
  absl::Status ForEach(int64_t first, absl::Span<float> scratch, Take take) const;
  // ||u_m||^2 of each contribution m, over the elements from `first` on, as many as
  // `scratch` has. Errors: as Mean.
  absl::StatusOr<std::vector<double>> Energies(int64_t first, absl::Span<float> scratch) const;

 private:
  struct Piece {
    const Codec* codec;
    float share;
    int64_t offset;
    SegmentView segment;
    int contribution;
  };
  // Adds the piece's elements in [first, first + out.size()) to `out`.
  static absl::Status Accumulate(const Piece& piece, int64_t first, absl::Span<float> out);

  std::vector<Piece> pieces_;
  int64_t elements_ = 0;
};

}  // namespace longhaul
