// Scales of two bytes: a non-negative float with 8 mantissa bits, its upper bits(s) >> 15, little
// endian. Unlike fp16 it has the range of a float, so that a segment needs no common exponent.
// Integer arithmetic that every kernel follows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace longhaul::scale_word {

inline constexpr int kShift = 15;
inline constexpr int kBytes = 2;
inline constexpr uint32_t kMax = 0x7f7fffff >> kShift;  // The largest finite one.

// The largest word whose scale times `levels` is finite.
constexpr uint32_t MaxFor(float levels) {
  return std::bit_cast<uint32_t>(0x1.fffffep127f / levels) >> kShift;
}

constexpr float Value(uint32_t word) { return std::bit_cast<float>(word << kShift); }

// Of block `block` in a plane of scales.
constexpr uint32_t Load(const uint8_t* scales, int64_t block) {
  return scales[block * kBytes] | uint32_t{scales[block * kBytes + 1]} << 8;
}

// Nearest, ties up, at most kMax. For non-negative finite s.
constexpr uint32_t Nearest(float s) {
  return std::min((std::bit_cast<uint32_t>(s) + (1u << (kShift - 1))) >> kShift, uint32_t{kMax});
}

// The next one that is not smaller, at most `max`.
constexpr uint32_t RoundUp(float s, uint32_t max) {
  return std::min((std::bit_cast<uint32_t>(s) + (1u << kShift) - 1) >> kShift, max);
}

}  // namespace longhaul::scale_word
