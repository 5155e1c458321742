// Losses of trainings that differ by rounding. Any change of rounding, also by another processor,
// changes the loss of one seed by 1 to 2 %. So a claim about a loss is one about the mean of many
// seeds. Tests of claims are called ...LossTest and are none of the gate: tests/nightly.sh losses.
// The gate's tests train with one seed, which shows no more than that nothing is broken (kBroken).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace longhaul {

// What the loss of one seed is never off by, unless something is broken.
inline constexpr double kBroken = 0.05;

// Of a claim. LONGHAUL_SEEDS=16 in the environment: so many.
inline int ClaimSeeds() {
  const char* seeds = std::getenv("LONGHAUL_SEEDS");
  return seeds == nullptr ? 16 : std::max(1, std::atoi(seeds));
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
