#include "tests/simulation/model.h"

namespace longhaul::simulation {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93;
  return x ^ (x >> 29);
}

uint64_t HashOf(std::string_view text) {
  uint64_t hash = text.size();
  for (char c : text) hash = Mix(hash, static_cast<unsigned char>(c));
  return hash;
}

void ApplyContributions(RoundKind kind, const std::vector<Words>& contributions, Outer& outer) {
  for (int i = 0; i < kWords; ++i) {
    if (kind == RoundKind::kSeed) {
      outer.parameters[i] = contributions[0][i];
      continue;
    }
    uint64_t step = 0;
    if (kind != RoundKind::kSkipped) {
      for (const Words& words : contributions) step = Mix(step, words[i]);
    }
    if (kind == RoundKind::kOuter) {
      outer.momentum[i] = Mix(outer.momentum[i], step);
      step += outer.momentum[i];
    }
    outer.downlink[i] = step;
    outer.parameters[i] += step;
  }
}

}  // namespace longhaul::simulation
