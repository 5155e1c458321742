#include "tests/simulation/model.h"

#include <bit>

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

float NoiseOf(uint64_t hash) {
  return static_cast<float>(static_cast<int64_t>(hash >> 40) - (1 << 23)) / (1 << 23);
}

Words InitialWords(std::string_view job, int fragment) {
  Words words;
  for (int i = 0; i < kWords; ++i) words[i] = NoiseOf(Mix(HashOf(job), fragment * kWords + i));
  return words;
}

float Encoded(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFF000u);
}

void ApplyContributions(RoundKind kind, const OuterRule& rule,
                        const std::vector<Weighted>& contributions, Outer& outer) {
  if (kind == RoundKind::kSkipped) return;
  if (kind == RoundKind::kSeed) {
    outer.parameters = contributions[0].words;
    return;
  }
  float weights = 0;
  for (const Weighted& contribution : contributions) weights += contribution.weight;
  for (int i = 0; i < kWords; ++i) {
    float mean = 0;
    for (const auto& [words, weight] : contributions) {
      const float share = weight / weights;
      const float part = share * words[i];
      mean = mean + part;
    }
    float step = mean;
    if (kind == RoundKind::kOuter) {
      if (rule.momentum > 0) {
        const float kept = rule.momentum * outer.momentum[i];
        outer.momentum[i] = kept + mean;
        const float ahead = rule.momentum * outer.momentum[i];
        step = mean + ahead;
      }
      step = rule.lr * step;
    }
    // Server error feedback is zero, since downlinks are exact.
    outer.downlink[i] = -step;
    outer.parameters[i] = outer.parameters[i] + outer.downlink[i];
  }
}

}  // namespace longhaul::simulation
