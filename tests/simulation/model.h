// The numbers of the simulation: a fragment is a few words, each one block of equal fp32 values, and
// the outer step on them in a second implementation, which serves as the oracle of the real one.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/schedule/round_kind.h"

namespace longhaul::simulation {

// The coordinator's, on its disk.
inline constexpr char kDataDir[] = "data";
// Of the checkpoints of a job, at most so many are kept; more than any job here has.
inline constexpr int kKeepAll = 1000;

// Of a fragment; word i belongs to rank i % ranks.
inline constexpr int kWords = 4;
using Words = std::array<float, kWords>;

uint64_t Mix(uint64_t a, uint64_t b);
uint64_t HashOf(std::string_view text);
// In [-1, 1), a function of the hash.
float NoiseOf(uint64_t hash);

// What a codec loses: the low bits.
float Encoded(float value);

struct Outer {
  Words parameters = {}, momentum = {}, downlink = {};
};
struct OuterRule {
  float lr = 1, momentum = 0;
};

// The outer step on the contributions, in this order, as FORMAT.md gives it; downlinks are exact.
// SEED: the one contribution becomes the parameters.
void ApplyContributions(RoundKind kind, const OuterRule& rule,
                        const std::vector<Words>& contributions, Outer& outer);

}  // namespace longhaul::simulation
