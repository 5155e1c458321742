#include "common/codec/segment_encoder.h"

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/codec/kernels/segment_energy.h"

namespace longhaul {
EncodeResult SumEnergies(const SegmentScratch& scratch, int32_t base_exponent) {
  const kernels::BlockEnergy energy = kernels::SegmentEnergy(
      scratch.elements, [&](int64_t b) { return scratch.energies[b / kernels::kSampleBlocks]; });
  return {base_exponent, energy.error, energy.signal};
}

SegmentEncoder::SegmentEncoder(const Codec& codec, int64_t elements, absl::Span<float> lost,
                               absl::Span<uint8_t> out, const NoiseKey& noise)
    : codec_(codec) {
  LH_CHECK(elements >= 1 && elements <= kTileElements, "not the size of a segment");
  LH_CHECK(lost.empty() || static_cast<int64_t>(lost.size()) == elements, "lost: wrong size");
  LH_CHECK(static_cast<int64_t>(out.size()) == codec.PayloadBytes(elements), "out: wrong size");
  scratch_.elements = elements;
  scratch_.lost = lost;
  scratch_.out = out;
  scratch_.noise = noise;
}

void SegmentEncoder::Add(const EncodeInput& run) {
  const int64_t elements = run.values.size();
  LH_CHECK(elements >= 1 && elements <= scratch_.elements - next_, "not within the segment");
  LH_CHECK(elements % kRunElements == 0 || elements == scratch_.elements - next_, "a short run");
  LH_CHECK(run.minus.empty() || run.minus.size() == run.values.size(), "minus: wrong size");
  LH_CHECK(run.error.empty() || run.error.size() == run.values.size(), "error: wrong size");
  const int64_t first_block = next_ / kBlockElements;
  const auto lost = scratch_.lost.empty() ? scratch_.lost : scratch_.lost.subspan(next_, elements);
  codec_.EncodeRun(run, lost, first_block, scratch_);
  const auto results =
      absl::MakeConstSpan(scratch_.blocks).subspan(first_block, CeilDiv(elements, kBlockElements));
  for (int64_t b = 0; bad_ < 0 && b < static_cast<int64_t>(results.size()); ++b) {
    if (results[b].magnitude_max > kernels::kFiniteMax)
      bad_ = next_ + b * kBlockElements + results[b].scale;
  }
  next_ += elements;
}

absl::StatusOr<EncodeResult> SegmentEncoder::Finish() {
  LH_CHECK(next_ == scratch_.elements, "the segment is not complete");
  if (bad_ >= 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: element %d of the segment is NaN or Inf", codec_.name(), bad_));
  }
  return codec_.FinishSegment(scratch_);
}

}  // namespace longhaul
