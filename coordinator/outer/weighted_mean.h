// The weighted mean of the pools' decoded outer gradients over one tile: D = (sum_m w_m * deq(c_m))
// / sum_m w_m.
//
// The arithmetic, in fp32, each operation rounded: acc = 0; for each contribution in the order of
// Add, acc = acc + w_m * deq(c_m); D = acc / W, where W is the sum of the weights in the order of
// the contributions, beginning with 0. One order for all elements, so the result does not depend on
// how ranks cut their segments.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"

namespace longhaul {

// W of the weights in order.
float SumWeights(absl::Span<const float> weights);

// Holds one tile; used for one after another. Not thread-safe.
class WeightedMean {
 public:
  WeightedMean();
  // Begins a tile of 1 to kTileElements elements.
  void Reset(int64_t elements);
  // Adds one coded segment that lies at [offset, offset + elements) of the tile. Segments of one
  // contribution are disjoint; all of it comes before the next contribution. Errors: as
  // Codec::DecodeAccumulate.
  struct Piece {
    int64_t offset = 0, elements = 0;
    int32_t base_exponent = 0;
    absl::Span<const uint8_t> payload;
  };
  absl::Status Add(const Codec& codec, float weight, const Piece& piece);
  // D, to be worked in place. Valid until Reset.
  absl::Span<float> Finish(float weight_sum);

 private:
  std::vector<float> buffer_;
  int64_t elements_ = 0;
};

}  // namespace longhaul
