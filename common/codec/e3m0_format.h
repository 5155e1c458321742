// The e3m0 format: 4 bits an element and one scale byte for each block of 128. Integer arithmetic
// that every kernel (scalar, SIMD, CUDA) follows, so that all give the same bits.
//
// A block's scale s is a float with 3 mantissa bits, named by its index: bits(s) >> 20, 8 exponent
// bits and 3 mantissa bits. A code is sign << 3 | level; level 0 is zero, level l in 1..7 is +-s *
// 2^(l - 7). Code 8 (minus zero) is reserved. Level of x: the nearest in the linear domain, ties
// away from zero. Between levels that is the threshold 0.75 * 2^k * s, and floor(log2(|x| / t)) ==
// (bits(|x|) - bits(t)) >> 23 exactly for positive normal t; below level 1 it is 2^-7 * s.
//
// In a payload (n elements, b = ceil(n / 128)): ceil(n / 2) bytes of codes, b scale bytes. A whole
// block is 16 little-endian words; word w holds elements w + 16 k at bits 4 k (k = 0..7), so that
// packing needs shifts and ors only. The elements of a short last block are in natural order: byte
// i holds element 2 i in its low half and 2 i + 1 in its high half, which is 0 where there is no
// such element. A scale byte is index - ScaleOrigin(base_exponent).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace longhaul::e3m0 {

inline constexpr int32_t kSignificandBits = 23;  // Of a float, without the leading one.
inline constexpr int32_t kSignificandMask = (1 << kSignificandBits) - 1;
inline constexpr int32_t kScaleShift = 20;         // bits(s) = index << kScaleShift.
inline constexpr int32_t kScaleIndexMin = 8 << 3;  // s = 2^-119: every threshold is a normal float.
inline constexpr int32_t kScaleIndexMax = (254 << 3) | 7;  // s = 1.875 * 2^127.
inline constexpr int32_t kBaseExponentMin = -119, kBaseExponentMax = 127;
inline constexpr int32_t kSearchBelow = 8,
                         kSearchAbove = 7;  // Candidates of the scale search around the nearest.

// Scale index for a block whose largest magnitude has these bits: the nearest scale, ties up. 0 (a
// zero block) when it is below 2^-119.
constexpr int32_t NearestScale(uint32_t magnitude_max) {
  if (magnitude_max < uint32_t{kScaleIndexMin} << kScaleShift) return 0;
  return std::min<int32_t>((magnitude_max + (1u << (kScaleShift - 1))) >> kScaleShift,
                           int32_t{kScaleIndexMax});
}

// The scale for stochastic rounding: the next one that is not smaller, so that nothing saturates.
constexpr int32_t UpperScale(uint32_t magnitude_max) {
  if (magnitude_max < uint32_t{kScaleIndexMin} << kScaleShift) return 0;
  return std::min<int32_t>((magnitude_max + (1u << kScaleShift) - 1) >> kScaleShift,
                           int32_t{kScaleIndexMax});
}

// Exponent e of the scale 2^e * 1.m with this index: a segment's base_exponent is that of its
// largest scale.
constexpr int32_t ScaleExponent(int32_t index) { return (index >> 3) - 127; }

// Scale index of scale byte 0 in a segment. Byte 255 is the largest scale with the exponent
// base_exponent.
constexpr int32_t ScaleOrigin(int32_t base_exponent) { return (base_exponent + 127 - 31) * 8; }

// Of a segment whose largest scale has this index; 0: all its blocks are zero.
constexpr int32_t BaseExponentOf(int32_t largest_index) {
  return largest_index == 0 ? 0 : ScaleExponent(largest_index);
}

// Whether a block must become zeros, since its scale is too small for the segment's scale bytes.
constexpr bool IsOutOfRange(int32_t index, int32_t origin) { return index != 0 && index < origin; }

constexpr uint8_t ScaleByte(int32_t index, int32_t origin) {
  return index < origin || index == 0 ? 0 : index - origin;
}

// What encoding and decoding a block need of its scale, as bits of floats.
struct Levels {
  int32_t least = 0;   // Smallest magnitude that is not coded zero: 2^-7 * s.
  int32_t step = 0;    // level = clamp((magnitude - step) >> 23, 1, 7): bits(0.75 * s) - (7 << 23).
  int32_t origin = 0;  // bits of level l: origin + (l << 23), so bits(s) - (7 << 23).
  int32_t mask = 0;    // 7, or 0 for a zero block, which decodes to zeros whatever its codes are.
};

constexpr Levels LevelsOf(int32_t scale_index) {
  if (scale_index < kScaleIndexMin) return {.least = std::numeric_limits<int32_t>::max()};
  const int32_t bits = scale_index << kScaleShift;
  const int32_t seven = 7 << kSignificandBits;
  // 0.75 * s is exact: a scale has 4 significant bits.
  const int32_t threshold = std::bit_cast<int32_t>(0.75f * std::bit_cast<float>(bits));
  return {.least = bits - seven, .step = threshold - seven, .origin = bits - seven, .mask = 7};
}

}  // namespace longhaul::e3m0
