// The arithmetic of the simulation. A fragment is a few words; each word is one block of equal fp32
// values. The outer step is implemented here a second time, to check the real one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/schedule/round_kind.h"

namespace longhaul::simulation {

// The coordinator's data folder on its simulated disk.
inline constexpr char kDataDir[] = "data";
// A folder there of users' folders.
inline constexpr char kImportDir[] = "import";
// At most so many checkpoints of a job are kept. No job here has as many.
inline constexpr int kKeepAll = 1000;

// The id of a job is a number, "-" and its name.
inline std::string JobNameOf(const std::string& id) { return id.substr(id.find('-') + 1); }

// Words of a fragment. Word i belongs to rank i % ranks.
inline constexpr int kWords = 4;
using Words = std::array<float, kWords>;

uint64_t Mix(uint64_t a, uint64_t b);
uint64_t HashOf(std::string_view text);
// A value in [-1, 1) that is a function of the hash.
float NoiseOf(uint64_t hash);

// The initial parameters of a fragment in the folder that a user made for a job of this name.
Words InitialWords(std::string_view job, int fragment);

// The low bits, which the simulated codec loses.
float Encoded(float value);

struct Outer {
  Words parameters = {}, momentum = {}, downlink = {};
};
struct OuterRule {
  float lr = 1, momentum = 0;
};

struct Weighted {
  Words words = {};
  float weight = 1;
};

// The outer step of FORMAT.md on the contributions in this order. Downlinks are exact. SEED: the
// only contribution becomes the parameters.
void ApplyContributions(RoundKind kind, const OuterRule& rule,
                        const std::vector<Weighted>& contributions, Outer& outer);

}  // namespace longhaul::simulation
