// Encoding a segment in runs, so that what is encoded can be made piece by piece in a cache and
// need not exist as a whole: the outer step does that. Codec::Encode is one run of everything.
//
// Lives on the stack for one segment. Not thread-safe; never blocks. Rules as for Codec::Encode.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "common/codec/kernels/block.h"
#include "common/layout/fragment_layout.h"

namespace longhaul {

// Runs are multiples of this, but for the last one: codecs group at most so many blocks.
inline constexpr int64_t kRunBlocks = 32;
inline constexpr int64_t kRunElements = kRunBlocks * kBlockElements;

// What a codec keeps between the runs of a segment.
struct SegmentScratch {
  int64_t elements = 0;
  absl::Span<float> lost;  // Of the whole segment, or empty.
  absl::Span<uint8_t> out;
  NoiseKey noise;
  std::array<kernels::BlockResult, kTileBlocks> blocks;
  std::array<kernels::BlockEnergy, kTileBlocks / kernels::kSampleBlocks> energies;
};

// The energies of the measured blocks, added in their order and scaled up to the segment.
EncodeResult SumEnergies(const SegmentScratch& scratch, int32_t base_exponent);

class SegmentEncoder {
 public:
  // A segment of `elements` into `out`, PayloadBytes(elements) bytes. `lost`: of that size or
  // empty.
  SegmentEncoder(const Codec& codec, int64_t elements, absl::Span<float> lost,
                 absl::Span<uint8_t> out, const NoiseKey& noise = {});

  // The next run. Its part of `lost` is written at once (Finish may write there again).
  void Add(const EncodeInput& run);
  // After the last run: the scales, and what Codec::Encode returns.
  absl::StatusOr<EncodeResult> Finish();

 private:
  const Codec& codec_;
  int64_t next_ = 0;  // Element that the next run begins with.
  int64_t bad_ = -1;  // The first NaN or Inf.
  SegmentScratch scratch_;
};

}  // namespace longhaul
