#include "coordinator/outer/apply_tile.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "coordinator/outer/average.h"
#include "coordinator/outer/nesterov.h"
#include "coordinator/outer/sgd.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

struct Tile {
  explicit Tile(int64_t elements, float value = 0)
      : theta(elements, value), momentum(elements), error(elements) {}
  TileState State() {
    return {absl::MakeSpan(theta), absl::MakeSpan(momentum), absl::MakeSpan(error)};
  }
  std::vector<float> theta, momentum, error;
};

// D as the only contribution.
struct Contribution {
  explicit Contribution(const std::vector<float>& gradient) : payload(gradient.size() * 4) {
    EXPECT_TRUE(codec->Encode({gradient}, {}, absl::MakeSpan(payload)).ok());
    mean.Reset(gradient.size());
    mean.Add(*codec, 1, 0, {static_cast<int64_t>(gradient.size()), 0, payload}, 0);
  }
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = CodecKind::kFp32});
  std::vector<uint8_t> payload;
  WeightedMean mean;
};

// Applies and returns what a pool decodes from the downlink.
std::vector<float> Apply(const OuterOptimizer& optimizer, const CodecOptions& down,
                         const std::vector<float>& gradient, Tile& tile,
                         TileResult* result = nullptr) {
  const std::unique_ptr<Codec> codec = *MakeCodec(down);
  std::vector<uint8_t> coded(codec->PayloadBytes(gradient.size()));
  const Contribution contribution(gradient);
  const absl::StatusOr<TileResult> applied =
      ApplyTile(optimizer, *codec, contribution.mean, tile.State(), {}, absl::MakeSpan(coded));
  EXPECT_TRUE(applied.ok()) << applied.status();
  if (result != nullptr) *result = *applied;
  std::vector<float> decoded(gradient.size());
  const auto elements = static_cast<int64_t>(gradient.size());
  EXPECT_TRUE(
      codec->Decode({elements, applied->base_exponent, coded}, absl::MakeSpan(decoded)).ok());
  return decoded;
}

std::vector<float> Noise(int64_t elements, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  return values;
}

// Streaming DiLoCo's outer step on one number: theta = 1, D = 4, lr = 2, no momentum.
TEST(ApplyTileTest, GoldenStepIsExact) {
  Tile tile(1, 1.0f);
  TileResult result;
  EXPECT_EQ(Apply(Sgd(2), {.kind = CodecKind::kFp32}, {4}, tile, &result), std::vector<float>{-8});
  EXPECT_EQ(tile.theta[0], -7.0f);
  EXPECT_EQ(tile.error[0], 0.0f);
  EXPECT_EQ(result.gradient_energy, 16.0);
  EXPECT_EQ(result.signal_energy, 64.0);
  EXPECT_EQ(result.error_energy, 0.0);
  EXPECT_EQ(result.parameter_energy, 49.0);
}

TEST(ApplyTileTest, AnExactCodecSubtractsTheStepOnce) {
  const Nesterov nesterov(0.7f, 0.9f);
  Tile tile(1000);
  tile.theta = Noise(1000, 1);
  for (uint64_t round = 2; round < 6; ++round) {
    std::vector<float> step = Noise(1000, round), momentum = tile.momentum;
    const std::vector<float> before = tile.theta;
    Apply(nesterov, {.kind = CodecKind::kFp32}, step, tile);
    nesterov.Step(absl::MakeSpan(step), absl::MakeSpan(momentum));
    EXPECT_EQ(tile.momentum, momentum);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(tile.theta[i], before[i] - step[i]);
    EXPECT_EQ(tile.error, std::vector<float>(1000, 0.0f));
  }
}

TEST(ApplyTileTest, PoolsReconstructTheParameters) {
  Tile tile(65536);
  tile.theta = Noise(65536, 1);
  for (uint64_t round = 2; round < 5; ++round) {
    std::vector<float> pool = tile.theta;
    const std::vector<float> decoded =
        Apply(Nesterov(0.4f, 0.9f), {.kind = CodecKind::kE3m0}, Noise(65536, round), tile);
    for (size_t i = 0; i < pool.size(); ++i) pool[i] += decoded[i];
    EXPECT_EQ(pool, tile.theta);
  }
}

// With error feedback, what the codec loses is sent later: the served parameters stay within one
// round's error of the true ones, after any number of rounds.
TEST(ApplyTileTest, ErrorFeedbackKeepsServedAndTrueTogether) {
  Tile tile(512);
  std::vector<double> truth(512);
  for (uint64_t round = 1; round < 60; ++round) {
    const std::vector<float> gradient = Noise(512, round);
    Apply(Sgd(1), {.kind = CodecKind::kE3m0}, gradient, tile);
    for (int i = 0; i < 512; ++i) truth[i] -= gradient[i];
  }
  for (int i = 0; i < 512; ++i) {
    EXPECT_NEAR(tile.theta[i] + tile.error[i], truth[i], 1e-4);
    EXPECT_LT(std::abs(tile.error[i]), 0.5);
  }
}

// d = decay * E - step ;  E = d - deq(c') (sync.down.feedback_decay).
TEST(ApplyTileTest, WhatWasLostComesBackDecayed) {
  constexpr float kDecay = 0.5f;
  // More than one run of the tile.
  Tile tile(5000);
  for (uint64_t round = 1; round < 4; ++round) {
    const std::vector<float> gradient = Noise(5000, round), before = tile.error;
    const std::vector<float> decoded =
        Apply(Sgd(1), {.kind = CodecKind::kE3m0, .feedback_decay = kDecay}, gradient, tile);
    for (int i = 0; i < 5000; ++i)
      ASSERT_EQ(tile.error[i], kDecay * before[i] - gradient[i] - decoded[i]) << round;
  }
}

TEST(ApplyTileTest, TheAverageReachesTheMeanOfThePools) {
  Tile tile(3, 10.0f);
  tile.momentum = {5, 5, 5};
  Apply(Average(), {.kind = CodecKind::kFp32}, {1, 2, -3}, tile);
  EXPECT_EQ(tile.theta, (std::vector<float>{9, 8, 13}));
  EXPECT_EQ(tile.momentum, (std::vector<float>{5, 5, 5}));
}

TEST(ApplyTileTest, RefusesAStepThatIsNotFinite) {
  const std::unique_ptr<Codec> codec = *MakeCodec({.kind = CodecKind::kE3m0});
  Tile tile(128);
  const std::vector<float> gradient(128, 3e38f);
  std::vector<uint8_t> coded(codec->PayloadBytes(128));
  EXPECT_TRUE(absl::IsInvalidArgument(ApplyTile(Sgd(1000), *codec, Contribution(gradient).mean,
                                                tile.State(), {}, absl::MakeSpan(coded))
                                          .status()));
}

}  // namespace
}  // namespace longhaul
