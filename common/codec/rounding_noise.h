// The random numbers of stochastic rounding: 16 bits for each element, from Philox-4x32-7, the same
// on every processor. Element i of a block is in row i / 16 of lane i % 16. Lane l of block b takes
// the four words of counter (key.first_block + b) * 16 + l. Rows 2 w and 2 w + 1 are the lower and
// the upper half of word w.
#pragma once

#include <bit>
#include <cstdint>

#include "common/base/random.h"

namespace longhaul {

// 1 + (r + 1/2) / 2^16 for 16 random bits r: within (1, 2), exact.
constexpr float NoisePlusOne(uint32_t r) {
  return std::bit_cast<float>(0x3f800040u | (r & 0xffff) << 7);
}

// The noise of one lane of a block.
class LaneNoise {
 public:
  LaneNoise() = default;
  constexpr LaneNoise(uint64_t key, int64_t block, int lane)
      : words_(Philox<7>(key, 0, static_cast<uint64_t>(block) * 16 + lane)) {}
  // The noise of element `element`, which must belong to this lane.
  constexpr float PlusOne(int element) const {
    const int row = element / 16;
    return NoisePlusOne(words_[row / 2] >> (row % 2 * 16));
  }

 private:
  std::array<uint32_t, 4> words_ = {};
};

// The noise of one block, for plain code.
class BlockNoise {
 public:
  BlockNoise(uint64_t key, int64_t block) {
    for (int lane = 0; lane < 16; ++lane) lanes_[lane] = LaneNoise(key, block, lane);
  }
  float PlusOne(int element) const { return lanes_[element % 16].PlusOne(element); }

 private:
  LaneNoise lanes_[16];
};

}  // namespace longhaul
