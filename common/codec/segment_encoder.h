// Encodes a segment in runs. So the input can be made piece by piece in a cache and need not exist
// as a whole; the outer step does that. Codec::Encode is one run of everything.
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

// All runs but the last have a multiple of so many blocks, since no codec groups more.
inline constexpr int64_t kRunBlocks = 32;
inline constexpr int64_t kRunElements = kRunBlocks * kBlockElements;

// What a codec keeps between the runs of a segment.
struct SegmentScratch {
  int64_t elements = 0;
  // The whole segment's, or empty.
  absl::Span<float> lost;
  absl::Span<uint8_t> out;
  NoiseKey noise;
  std::array<kernels::BlockResult, kTileBlocks> blocks;
  std::array<kernels::BlockEnergy, kTileBlocks / kernels::kSampleBlocks> energies;
};

// The energies of the measured blocks, added in their order and scaled up to the segment.
EncodeResult SumEnergies(const SegmentScratch& scratch, int32_t base_exponent);

class SegmentEncoder {
 public:
  // Encodes a segment of `elements` into `out`, which has PayloadBytes(elements) bytes. `lost` has
  // `elements` or is empty.
  SegmentEncoder(const Codec& codec, int64_t elements, absl::Span<float> lost,
                 absl::Span<uint8_t> out, const NoiseKey& noise = {});

  // Adds the next run. Its part of `lost` is written at once (Finish may write there again).
  void Add(const EncodeInput& run);
  // Call after the last run: writes the scales, and returns the result of Codec::Encode.
  absl::StatusOr<EncodeResult> Finish();

 private:
  const Codec& codec_;
  // The first element of the next run.
  int64_t next_ = 0;
  // The index of the first NaN or Inf.
  int64_t bad_ = -1;
  SegmentScratch scratch_;
};

}  // namespace longhaul
