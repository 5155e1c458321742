// Losses of trainings that differ by rounding. Any change of rounding, also by another processor,
// changes the loss of one seed by 1 to 2 %. So the bounds of papers hold for means of kEnoughSeeds
// seeds (LONGHAUL_SEEDS=16). Fewer seeds only show that nothing is broken.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace longhaul {

inline constexpr int kEnoughSeeds = 16;
// What a mean of fewer seeds may be off.
inline constexpr double kFewSeedsBound = 0.05;

inline int Seeds(int fewest) {
  const char* seeds = std::getenv("LONGHAUL_SEEDS");
  return seeds == nullptr ? fewest : std::max(1, std::atoi(seeds));
}
// The bound of a paper, if there are enough seeds for it.
inline double BoundFor(int seeds, double bound) {
  return seeds < kEnoughSeeds ? std::max(bound, kFewSeedsBound) : bound;
}

// The mean over seeds 1, 2, ... of loss(seed) / reference(seed) - 1. Prints it with its standard
// error.
template <typename Loss, typename Reference>
double MeanExcess(const char* name, int seeds, Loss&& loss, Reference&& reference) {
  double sum = 0, squares = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(seeds); ++seed) {
    const double excess = loss(seed) / reference(seed) - 1;
    sum += excess;
    squares += excess * excess;
  }
  const double mean = sum / seeds;
  const double error =
      std::sqrt(std::max(0.0, squares / seeds - mean * mean) / std::max(1, seeds - 1));
  std::printf("%s: loss %+.2f %% of the reference's, standard error %.2f %%, %d seed(s)\n", name,
              100 * mean, 100 * error, seeds);
  return mean;
}

}  // namespace longhaul
