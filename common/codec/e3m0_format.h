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

// Of a float, without the leading one.
inline constexpr int32_t kSignificandBits = 23;
inline constexpr int32_t kSignificandMask = (1 << kSignificandBits) - 1;
// bits(s) = index << kScaleShift.
inline constexpr int32_t kScaleShift = 20;
// s = 2^-119: every threshold is a normal float.
inline constexpr int32_t kScaleIndexMin = 8 << 3;
// s = 1.875 * 2^127.
inline constexpr int32_t kScaleIndexMax = (254 << 3) | 7;
inline constexpr int32_t kBaseExponentMin = -119, kBaseExponentMax = 127;
// How many candidates below and above the nearest scale the search tries.
inline constexpr int32_t kSearchBelow = 8, kSearchAbove = 7;

// The scale index for a block whose largest magnitude has these bits: the nearest scale, ties up.
// It is 0 (a zero block) if that scale is below 2^-119.
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

// Exponent e of the scale 2^e * 1.m with this index. A segment's base_exponent is that of its
// largest scale.
constexpr int32_t ScaleExponent(int32_t index) { return (index >> 3) - 127; }

// The scale index for which the scale byte is 0 in a segment. Byte 255 is the largest scale with
// the exponent base_exponent.
constexpr int32_t ScaleOrigin(int32_t base_exponent) { return (base_exponent + 127 - 31) * 8; }

// The base exponent of a segment whose largest scale has this index. Index 0: all its blocks are
// zero.
constexpr int32_t BaseExponentOf(int32_t largest_index) {
  return largest_index == 0 ? 0 : ScaleExponent(largest_index);
}

// Whether a block must become zeros, since its scale is too small for the segment's scale bytes.
constexpr bool IsOutOfRange(int32_t index, int32_t origin) { return index != 0 && index < origin; }

constexpr uint8_t ScaleByte(int32_t index, int32_t origin) {
  return index < origin || index == 0 ? 0 : index - origin;
}

// The values that coding and decoding a block need, derived from its scale, as bits of floats.
struct Levels {
  // Smallest magnitude that is not coded zero: 2^-7 * s.
  int32_t least = 0;
  // level = clamp((magnitude - step) >> 23, 1, 7), with step = bits(0.75 * s) - (7 << 23).
  int32_t step = 0;
  // The bits of level l are origin + (l << 23), so origin = bits(s) - (7 << 23).
  int32_t origin = 0;
  // 7, or 0 for a zero block: its elements decode to zero whatever their codes are.
  int32_t mask = 0;
};

constexpr Levels LevelsOf(int32_t scale_index) {
  if (scale_index < kScaleIndexMin) return {.least = std::numeric_limits<int32_t>::max()};
  const int32_t bits = scale_index << kScaleShift;
  const int32_t seven = 7 << kSignificandBits;
  // 0.75 * s is exact, since a scale has 4 significant bits.
  const int32_t threshold = std::bit_cast<int32_t>(0.75f * std::bit_cast<float>(bits));
  return {.least = bits - seven, .step = threshold - seven, .origin = bits - seven, .mask = 7};
}

}  // namespace longhaul::e3m0
