// What encoders report about blocks, which blocks are measured, and the arithmetic of energies that
// every kernel follows.
//
// Energies are summed in fp32, over magnitudes that are normalised by a power of two, so that no
// square overflows or underflows. Lane l of 16 adds elements l, l + 16, ..., l + 112 in this order.
// Then the lanes are added by halving (l += l + 8, + 4, + 2, + 1). Missing elements of a short
// block count as zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace longhaul::kernels {

inline constexpr int kLanes = 16;

struct BlockResult {
  // The largest magnitude, as bits of a float. It is above kFiniteMax if any element is NaN or Inf.
  uint32_t magnitude_max = 0;
  // The block's scale as its codec writes it. In a block with NaN or Inf: the index of the first of
  // them.
  uint32_t scale = 0;
};

struct BlockEnergy {
  double error = 0, signal = 0;
};

// Measuring energies costs about as much as encoding. So one block of each group of eight is
// measured, at another place in each group, so that no stripe of a matrix is preferred. The first
// block of a segment is always measured.
inline constexpr int64_t kSampleBlocks = 8;
constexpr int64_t MeasuredBlock(int64_t group) {
  return group * kSampleBlocks + group % kSampleBlocks;
}
constexpr bool IsMeasured(int64_t block) { return block == MeasuredBlock(block / kSampleBlocks); }

inline constexpr uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr uint32_t kFiniteMax = 0x7f7fffff;

// Codecs with scales code a block as zero if its largest magnitude is below 2^-119. So scales,
// thresholds and their inverses are always normal floats.
inline constexpr uint32_t kCodedMin = (127 - 119) << 23;

// Exponent e of the normalisation by 2^-e. The largest normalised magnitude is below 4.
constexpr int32_t EnergyExponent(uint32_t magnitude_max) {
  return std::clamp<int32_t>(magnitude_max >> 23, 1, 253) - 127;
}

constexpr float EnergyFactor(uint32_t magnitude_max) {
  return std::bit_cast<float>((127 - EnergyExponent(magnitude_max)) << 23);
}

constexpr double Energy(float normalised, uint32_t magnitude_max) {
  const uint64_t exponent = 1023 + 2 * EnergyExponent(magnitude_max);
  return normalised * std::bit_cast<double>(exponent << 52);
}

constexpr float SumLanes(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace longhaul::kernels
