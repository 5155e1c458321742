// The two levels of a topk2 chunk. The encoder puts the kept magnitudes into two classes, above
// their mean and not above it, and codes each class as its mean. Sums are normalised by a power of
// two and added as energies are (kernels/block.h): lane j % 16 adds the j-th kept element, then the
// lanes halve.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "absl/types/span.h"
#include "common/base/host_device.h"
#include "common/codec/kernels/block.h"
#include "common/codec/kernels/dense_policy.h"
#include "common/codec/scale_word.h"
#include "common/codec/sign1_format.h"
#include "common/codec/topk2_format.h"

namespace longhaul::topk2 {

struct Levels {
  // See scale_word.h.
  uint16_t low = 0, high = 0;

  constexpr float ValueOf(uint8_t entry) const {
    const uint32_t magnitude = uint32_t{(entry & Entry::kHigh) != 0 ? high : low}
                               << scale_word::kShift;
    return std::bit_cast<float>(magnitude | (uint32_t{entry} & Entry::kNegative) << 24);
  }
};

// Which kept magnitudes are above their mean. `Kept`, here and below, is kKeptMax values in
// ascending position, zeros where there are fewer, with Sum (kernels/dense_policy.h).
// `magnitude_max` is the largest of them.
struct Split {
  float factor = 1, mean = 0;

  constexpr float Normalised(float x) const {
    return std::bit_cast<float>(kernels::Magnitude(x)) * factor;
  }
  constexpr bool IsHigh(float x) const { return Normalised(x) >= mean; }
};

template <typename Kept>
LONGHAUL_HOST_DEVICE Split SplitOf(const Kept& kept, int count, uint32_t magnitude_max) {
  Split split{.factor = kernels::EnergyFactor(magnitude_max)};
  const float sum = kept.Sum([&](float x, int) { return split.Normalised(x); });
  split.mean = sum / static_cast<float>(count);
  return split;
}

// The levels from the sums of the magnitudes of each class. A class may be empty: the mean of equal
// magnitudes may be rounded to more than they are.
LONGHAUL_HOST_DEVICE inline Levels LevelsOfSums(float lower, int lows, float upper, int highs,
                                                uint32_t magnitude_max) {
  const uint32_t low = lows == 0 ? 0 : sign1::MeanWord(lower, lows, magnitude_max);
  const uint32_t high = highs == 0 ? 0 : sign1::MeanWord(upper, highs, magnitude_max);
  return {static_cast<uint16_t>(low), static_cast<uint16_t>(high)};
}

template <typename Kept>
LONGHAUL_HOST_DEVICE Levels LevelsOf(const Kept& kept, int count, uint32_t magnitude_max,
                                     const Split& split) {
  const int highs = static_cast<int>(
      kept.Sum([&](float x, int j) { return j < count && split.IsHigh(x) ? 1.0f : 0.0f; }));
  const float lower =
      kept.Sum([&](float x, int) { return split.IsHigh(x) ? 0.0f : split.Normalised(x); });
  const float upper =
      kept.Sum([&](float x, int) { return split.IsHigh(x) ? split.Normalised(x) : 0.0f; });
  return LevelsOfSums(lower, count - highs, upper, highs, magnitude_max);
}

constexpr uint8_t EntryOf(int position, bool high, float value) {
  return static_cast<uint8_t>(position % static_cast<int>(kGroupElements) |
                              (high ? Entry::kHigh : 0) |
                              (std::bit_cast<uint32_t>(value) >> 31 != 0 ? Entry::kNegative : 0));
}

#ifndef __CUDACC__
// Whether the j-th kept element is coded with the high level.
using KeptLevels = std::array<bool, kKeptMax>;

// For values in plain memory. `kept` has 1 to kKeptMax finite values.
inline Levels ChooseLevels(absl::Span<const float> kept, uint32_t magnitude_max,
                           KeptLevels& is_high) {
  const int count = static_cast<int>(kept.size());
  std::array<float, kKeptMax> padded = {};
  std::copy(kept.begin(), kept.end(), padded.begin());
  const kernels::PlainValues<kKeptMax> values = {padded.data()};
  const Split split = SplitOf(values, count, magnitude_max);
  for (int j = 0; j < count; ++j) is_high[j] = split.IsHigh(kept[j]);
  return LevelsOf(values, count, magnitude_max, split);
}
#endif

}  // namespace longhaul::topk2
