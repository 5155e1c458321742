// What encoders report of each block, and the arithmetic of its energies that every kernel follows.
//
// Energies are summed in fp32 over magnitudes normalised by a power of two, so that no square
// overflows or vanishes: lane l of 16 adds elements l, l + 16, ..., l + 112 in this order, then the
// lanes are added by halving (l += l + 8, + 4, + 2,
// + 1). Elements that a short block lacks count as zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace longhaul::kernels {

inline constexpr int kLanes = 16;

struct BlockResult {
  uint32_t magnitude_max =
      0;  // Largest magnitude, as bits of a float: above kFiniteMax when any is NaN or Inf.
  int32_t scale_index = 0;  // Only of codecs with scales.
  double error_energy = 0;
  double signal_energy = 0;
};

inline constexpr uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr uint32_t kFiniteMax = 0x7f7fffff;

// Exponent e of the normalisation by 2^-e; the largest normalised magnitude is below 4.
inline int32_t EnergyExponent(uint32_t magnitude_max) {
  return std::clamp<int32_t>(magnitude_max >> 23, 1, 253) - 127;
}

inline float EnergyFactor(uint32_t magnitude_max) {
  return std::bit_cast<float>((127 - EnergyExponent(magnitude_max)) << 23);
}

inline double Energy(float normalised, uint32_t magnitude_max) {
  const uint64_t exponent = 1023 + 2 * EnergyExponent(magnitude_max);
  return normalised * std::bit_cast<double>(exponent << 52);
}

inline float SumLanes(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace longhaul::kernels
