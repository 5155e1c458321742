#include "coordinator/outer/weighted_mean.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

float SumWeights(absl::Span<const float> weights) {
  float sum = 0;
  for (const float weight : weights) sum += weight;
  return sum;
}

WeightedMean::WeightedMean() : buffer_(kTileElements) {}

void WeightedMean::Reset(int64_t elements) {
  LH_CHECK(elements >= 1 && elements <= kTileElements, "not the size of a tile");
  elements_ = elements;
  std::fill_n(buffer_.begin(), elements, 0.0f);
}

absl::Status WeightedMean::Add(const Codec& codec, float weight, const Piece& piece) {
  LH_CHECK(piece.offset >= 0 && piece.elements <= elements_ - piece.offset, "not within the tile");
  return codec.DecodeAccumulate(piece.base_exponent, piece.payload, weight,
                                absl::MakeSpan(buffer_).subspan(piece.offset, piece.elements));
}

absl::Span<float> WeightedMean::Finish(float weight_sum) {
  float* const acc = buffer_.data();
  for (int64_t i = 0; i < elements_; ++i) acc[i] /= weight_sum;
  return absl::MakeSpan(buffer_).first(elements_);
}

}  // namespace longhaul
