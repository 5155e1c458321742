// The two levels of a topk2 chunk. The encoder's choice: the kept magnitudes above their mean, and
// the others; each class is coded as its mean. Sums are normalised by a power of two and added as
// energies are (kernels/block.h): lane j % 16 adds the j-th kept element, then the lanes halve.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "absl/types/span.h"
#include "common/codec/kernels/block.h"
#include "common/codec/scale_word.h"
#include "common/codec/sign1_format.h"
#include "common/codec/topk2_format.h"

namespace longhaul::topk2 {

struct Levels {
  uint16_t low = 0, high = 0;  // scale_word.h

  float ValueOf(uint8_t entry) const {
    const uint32_t magnitude = uint32_t{(entry & Entry::kHigh) != 0 ? high : low}
                               << scale_word::kShift;
    return std::bit_cast<float>(magnitude | (uint32_t{entry} & Entry::kNegative) << 24);
  }
};

inline uint8_t EntryOf(uint16_t position, bool high, float value) {
  const uint32_t negative = std::bit_cast<uint32_t>(value) >> 31;
  return static_cast<uint8_t>(position % kGroupElements | (high ? Entry::kHigh : 0) |
                              (negative != 0 ? Entry::kNegative : 0));
}

// Bit j: whether the j-th kept element is coded with the high level.
using HighMask = uint64_t;
static_assert(kKeptMax <= 64);

// Of the sums of the magnitudes in each class. A class may be empty: rounding may put the mean of
// equal magnitudes above them all.
inline Levels LevelsOf(float lower, int lows, float upper, int highs, uint32_t magnitude_max) {
  const uint32_t low = lows == 0 ? 0 : sign1::MeanWord(lower, lows, magnitude_max);
  const uint32_t high = highs == 0 ? 0 : sign1::MeanWord(upper, highs, magnitude_max);
  return {static_cast<uint16_t>(low), static_cast<uint16_t>(high)};
}

// `kept`: 1 to kKeptMax finite values, in ascending position; `magnitude_max`: their largest.
inline Levels ChooseLevels(absl::Span<const float> kept, uint32_t magnitude_max, HighMask* high) {
  const float factor = kernels::EnergyFactor(magnitude_max);
  std::array<float, kKeptMax> magnitudes;
  float all[kernels::kLanes] = {}, upper[kernels::kLanes] = {}, lower[kernels::kLanes] = {};
  for (size_t j = 0; j < kept.size(); ++j) {
    magnitudes[j] =
        std::bit_cast<float>(std::bit_cast<uint32_t>(kept[j]) & kernels::kMagnitudeMask) * factor;
    all[j % kernels::kLanes] += magnitudes[j];
  }
  const float mean = kernels::SumLanes(all) / static_cast<float>(kept.size());
  *high = 0;
  for (size_t j = 0; j < kept.size(); ++j) {
    const bool is_high = magnitudes[j] >= mean;
    *high |= HighMask{is_high} << j;
    (is_high ? upper : lower)[j % kernels::kLanes] += magnitudes[j];
  }
  const int highs = std::popcount(*high);
  return LevelsOf(kernels::SumLanes(lower), static_cast<int>(kept.size()) - highs,
                  kernels::SumLanes(upper), highs, magnitude_max);
}

}  // namespace longhaul::topk2
