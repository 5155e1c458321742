#include "coordinator/outer/weighted_mean.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

float SumWeights(absl::Span<const float> weights) {
  float sum = 0;
  for (const float weight : weights) sum += weight;
  return sum;
}

void WeightedMean::Reset(int64_t elements) {
  LH_CHECK(elements >= 1 && elements <= kTileElements, "not the size of a tile");
  elements_ = elements;
  pieces_.clear();
}

void WeightedMean::Add(const Codec& codec, float share, int64_t offset,
                       const SegmentView& segment) {
  LH_CHECK(offset >= 0 && offset % kBlockElements == 0 && segment.elements <= elements_ - offset,
           "not within the tile");
  pieces_.push_back({&codec, share, offset, segment});
}

absl::Status WeightedMean::Mean(int64_t first, absl::Span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  const int64_t last = first + static_cast<int64_t>(out.size());
  for (const Piece& piece : pieces_) {
    const int64_t begin = std::max(first, piece.offset);
    const int64_t end = std::min(last, piece.offset + piece.segment.elements);
    if (begin >= end) continue;
    LH_RETURN_IF_ERROR(piece.codec->DecodeAccumulate(piece.segment, piece.share,
                                                     out.subspan(begin - first, end - begin),
                                                     (begin - piece.offset) / kBlockElements));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
