// Which values dropout keeps: a pure function of (key, layer, node, column), for the processor and
// for kernels of a device.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/random.h"

namespace longhaul {

// A word has the bits of four columns; the rate is in steps of 1/65536.
inline constexpr int kDropoutBits = 16, kDropoutOfAWord = 64 / kDropoutBits;
inline constexpr int64_t kDropoutSteps = int64_t{1} << kDropoutBits;

struct DropoutRate {
  explicit DropoutRate(double rate)
      : dropped(std::lround(rate * kDropoutSteps)),
        kept(static_cast<float>(kDropoutSteps) / static_cast<float>(kDropoutSteps - dropped)) {}
  // Of kDropoutSteps.
  int64_t dropped;
  // What kept values are multiplied by.
  float kept;
};

// Of a node's row.
constexpr uint64_t DropoutRow(uint64_t key, int64_t layer, int64_t node) {
  return Philox64(key, static_cast<uint64_t>(layer), static_cast<uint64_t>(node));
}

// The word of the columns `first` to first + 3. The mixer of SplitMix64 (Steele, Lea and Flood,
// 2014).
constexpr uint64_t DropoutWord(uint64_t of_row, int64_t first) {
  uint64_t z = of_row + static_cast<uint64_t>(first + kDropoutOfAWord) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Whether column first + i is dropped, with a rate of `dropped` steps.
constexpr bool DropoutDrops(uint64_t word, int64_t i, int64_t dropped) {
  return static_cast<int64_t>(word >> (kDropoutBits * i) & (kDropoutSteps - 1)) < dropped;
}

}  // namespace longhaul
