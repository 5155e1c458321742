// The format sign1: one bit for each element, and a two-byte scale (scale_word.h) for each block.
// An element decodes to +scale or -scale. Bit i % 8 of byte i / 8 is the sign bit of element i (1:
// negative); bits after the last element are 0. Every kernel follows this arithmetic.
//
// The scale is the mean magnitude, which has the least squared error (1-bit SGD, Seide et al.
// 2014), or the root mean square, which keeps the block's norm (1-bit Adam, arXiv 2102.02888). Sums
// are normalised and ordered as energies are (kernels/block.h). They count only the elements that
// exist.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/base/host_device.h"
#include "common/codec/kernels/block.h"
#include "common/codec/scale_word.h"

namespace longhaul::sign1 {

// The word of `normalised` divided by EnergyFactor.
LONGHAUL_HOST_DEVICE inline uint32_t WordOf(float normalised, uint32_t magnitude_max) {
  if (magnitude_max < kernels::kCodedMin || magnitude_max > kernels::kFiniteMax) return 0;
  // 2^e. Here e is within -119 .. 126, so the product is normal. It is at most the maximum.
  const float unit = std::bit_cast<float>((kernels::EnergyExponent(magnitude_max) + 127) << 23);
  return scale_word::Nearest(normalised * unit);
}

LONGHAUL_HOST_DEVICE inline uint32_t MeanWord(float magnitude_sum, int elements,
                                              uint32_t magnitude_max) {
  return WordOf(magnitude_sum / static_cast<float>(elements), magnitude_max);
}

LONGHAUL_HOST_DEVICE inline uint32_t RootMeanSquareWord(float energy, int elements,
                                                        uint32_t magnitude_max) {
  return WordOf(std::sqrt(energy / static_cast<float>(elements)), magnitude_max);
}

}  // namespace longhaul::sign1
