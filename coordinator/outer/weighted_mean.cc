#include "coordinator/outer/weighted_mean.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/outer/sum_of_squares.h"

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

void WeightedMean::Add(const Codec& codec, float share, int64_t offset, const SegmentView& segment,
                       int contribution) {
  LH_CHECK(offset >= 0 && offset % kBlockElements == 0 && segment.elements <= elements_ - offset,
           "not within the tile");
  pieces_.push_back({&codec, share, offset, segment, contribution});
}

absl::Status WeightedMean::Mean(int64_t first, absl::Span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  for (const Piece& piece : pieces_) LH_RETURN_IF_ERROR(Accumulate(piece, first, out));
  return absl::OkStatus();
}

absl::Status WeightedMean::ForEach(int64_t first, absl::Span<float> scratch, Take take) const {
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const int contribution = piece->contribution;
    std::fill(scratch.begin(), scratch.end(), 0.0f);
    for (; piece != pieces_.end() && piece->contribution == contribution; ++piece)
      LH_RETURN_IF_ERROR(Accumulate(*piece, first, scratch));
    take(contribution, scratch);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> WeightedMean::Energies(int64_t first,
                                                           absl::Span<float> scratch) const {
  std::vector<double> energies;
  LH_RETURN_IF_ERROR(ForEach(first, scratch, [&](int contribution, absl::Span<const float> u) {
    energies.resize(std::max<size_t>(energies.size(), contribution + 1));
    energies[contribution] = SumOfSquares(u);
  }));
  return energies;
}

absl::Status WeightedMean::Accumulate(const Piece& piece, int64_t first, absl::Span<float> out) {
  const int64_t last = first + static_cast<int64_t>(out.size());
  const int64_t begin = std::max(first, piece.offset);
  const int64_t end = std::min(last, piece.offset + piece.segment.elements);
  if (begin >= end) return absl::OkStatus();
  return piece.codec->DecodeAccumulate(piece.segment, piece.share,
                                       out.subspan(begin - first, end - begin),
                                       (begin - piece.offset) / kBlockElements);
}

}  // namespace longhaul
