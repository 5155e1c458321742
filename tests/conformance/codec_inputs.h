// Segments with which codecs are tested: sizes around blocks and tiles, and values that break
// careless arithmetic.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::codec_test {

inline constexpr int64_t kSizes[] = {
    1, 2, 127, 128, 129, 255, 256, 1000, 4095, 4097, kTileElements - 1, kTileElements};

// Drawn once and kept, since every codec is tested with the same values, and drawing them takes
// longer than coding them. For one thread.
inline const std::vector<float>& Gaussian(int64_t n, float scale = 1, uint64_t seed = 1) {
  static auto& drawn = *new std::map<std::tuple<int64_t, float, uint64_t>, std::vector<float>>();
  std::vector<float>& result = drawn[{n, scale, seed}];
  if (!result.empty()) return result;
  Random random(seed);
  result.resize(n);
  for (float& x : result) {
    const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
    x = static_cast<float>(scale * radius * std::cos(2 * std::numbers::pi * random.Uniform()));
  }
  return result;
}

inline std::vector<float> Laplace(int64_t n, uint64_t seed = 1) {
  Random random(seed);
  std::vector<float> result(n);
  for (float& x : result) {
    const double magnitude = -std::log(1 - random.Uniform());
    x = static_cast<float>(random.Below(2) == 0 ? magnitude : -magnitude);
  }
  return result;
}

// Arbitrary finite bit patterns.
inline std::vector<float> AnyFinite(int64_t n, uint64_t seed = 1) {
  Random random(seed);
  std::vector<float> result(n);
  for (float& x : result) {
    do {
      x = std::bit_cast<float>(static_cast<uint32_t>(random.Next()));
    } while (!std::isfinite(x));
  }
  return result;
}

// Inputs of n elements, with names. Made once and kept. For one thread.
inline const std::vector<std::pair<std::string, std::vector<float>>>& Inputs(int64_t n) {
  using Limits = std::numeric_limits<float>;
  static auto& made =
      *new std::map<int64_t, std::vector<std::pair<std::string, std::vector<float>>>>();
  auto& inputs = made[n];
  if (!inputs.empty()) return inputs;
  inputs = {
      {"gaussian", Gaussian(n, 1e-3f)},
      {"any finite", AnyFinite(n)},
      {"zeros", std::vector<float>(n, 0.0f)},
      {"minus zeros", std::vector<float>(n, -0.0f)},
      {"smallest denormals", std::vector<float>(n, Limits::denorm_min())},
      {"denormals", Gaussian(n, 1e-39f)},
      {"around the smallest scale", Gaussian(n, 0x1p-119f)},
      {"largest", std::vector<float>(n, Limits::max())},
      {"smallest", std::vector<float>(n, Limits::lowest())},
      {"huge", Gaussian(n, 5e37f)},
  };
  std::vector<float> outlier = Gaussian(n, 1e-6f);
  outlier[n / 2] = 1e20f;
  inputs.emplace_back("one outlier", std::move(outlier));
  std::vector<float> staircase = Gaussian(n);
  for (int64_t i = 0; i < n; ++i)
    staircase[i] *= std::exp2(static_cast<float>(-(i / kBlockElements) % 60));
  inputs.emplace_back("block scales over 2^59", std::move(staircase));
  return inputs;
}

}  // namespace longhaul::codec_test
