// The data plane of the simulation: a fragment is a few words, and every operation on it is small
// exact arithmetic in which each contribution, its order and its count leave a mark. So equal words
// mean equal histories.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/schedule/round_kind.h"

namespace longhaul::simulation {

inline constexpr int kWords = 4;  // Of a fragment; word i belongs to rank i % ranks.
using Words = std::vector<uint64_t>;

uint64_t Mix(uint64_t a, uint64_t b);
uint64_t HashOf(std::string_view text);

// What a codec loses: the low bits.
inline uint64_t Encoded(uint64_t value) { return value & ~uint64_t{0xff}; }

struct Outer {
  Words parameters = Words(kWords), momentum = Words(kWords), downlink = Words(kWords);
};

// The outer step on the contributions, in this order. SEED: the one contribution becomes the
// parameters.
void ApplyContributions(RoundKind kind, const std::vector<Words>& contributions, Outer& outer);

}  // namespace longhaul::simulation
