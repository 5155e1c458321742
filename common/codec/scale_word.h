// Scales of two bytes: a non-negative float with 8 mantissa bits, as bits(s) >> 15, little endian.
// Unlike fp16 it has the range of a float, so a segment needs no common exponent. Every kernel
// follows this integer arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace longhaul::scale_word {

inline constexpr int kShift = 15;
inline constexpr int kBytes = 2;
// The largest finite one.
inline constexpr uint32_t kMax = 0x7f7fffff >> kShift;

// The largest word whose scale times `levels` is finite.
constexpr uint32_t MaxFor(float levels) {
  return std::bit_cast<uint32_t>(0x1.fffffep127f / levels) >> kShift;
}

constexpr float Value(uint32_t word) { return std::bit_cast<float>(word << kShift); }

// The word of block `block` in a plane of scales.
constexpr uint32_t Load(const uint8_t* scales, int64_t block) {
  return scales[block * kBytes] | uint32_t{scales[block * kBytes + 1]} << 8;
}

// The nearest word, ties up, at most kMax. `s` is non-negative and finite.
constexpr uint32_t Nearest(float s) {
  return std::min((std::bit_cast<uint32_t>(s) + (1u << (kShift - 1))) >> kShift, uint32_t{kMax});
}

// The smallest word that is not below `s`, at most `max`.
constexpr uint32_t RoundUp(float s, uint32_t max) {
  return std::min((std::bit_cast<uint32_t>(s) + (1u << kShift) - 1) >> kShift, max);
}

}  // namespace longhaul::scale_word
