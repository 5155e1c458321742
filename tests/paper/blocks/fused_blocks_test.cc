// Blocks by hand train as blocks by autograd do: the same data, order and initial parameters,
// losses of all steps.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "tests/paper/many_seeds.h"
#include "tests/testing/language_run.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kSteps = 300;
constexpr char kText[] = "/usr/share/common-licenses/GPL-3";

std::vector<double> Losses(Blocks blocks, ComputePrecision precision, uint64_t seed = 1,
                           int batch = 8) {
  const auto replica =
      CreateReplica({.plan = {.batch = batch,
                              .seed = seed,
                              .learning_rate = {.peak = 4e-3, .steps = kSteps, .warmup_steps = 30},
                              .optimizer = AdamWOptions{.weight_decay = 0.01},
                              .precision = precision,
                              .blocks = blocks},
                     .language = {.shape = {.layers = 2,
                                            .dim = 64,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .ff_dim = 128,
                                            .context = 64,
                                            .vocab = 256,
                                            .qk_norm = true},
                                  .sources = {{.source = {.path = kText}}}}});
  EXPECT_TRUE(replica.ok()) << replica.status();
  std::vector<double> losses;
  for (int step = 1; step <= kSteps; ++step) losses.push_back((*replica)->Step(step)->loss);
  return losses;
}

TEST(FusedBlocksTest, LossesOf300StepsAreAutograds) {
  const auto fused = Losses(Blocks::kFused, ComputePrecision::kFloat32);
  EXPECT_LT(fused.back(), 0.6 * fused.front());
  const auto autograd = Losses(Blocks::kAutograd, ComputePrecision::kFloat32);
  for (int i = 0; i < kSteps; ++i) EXPECT_LT(std::abs(fused[i] / autograd[i] - 1), 1e-3) << i;
}

// The mean of the last 50 steps.
double EndLoss(Blocks blocks, ComputePrecision precision, uint64_t seed, int batch) {
  const std::vector<double> losses = Losses(blocks, precision, seed, batch);
  return std::accumulate(losses.end() - 50, losses.end(), 0.0) / 50;
}

// Bounds: of fused blocks, of autograd's.
void ExpectLossesInBfloat16Stay(int seeds, int batch, double fused, double autograd) {
  std::vector<double> exact;
  for (int seed = 1; seed <= seeds; ++seed)
    exact.push_back(EndLoss(Blocks::kFused, ComputePrecision::kFloat32, seed, batch));
  for (const auto& [name, blocks, bound] :
       {std::tuple{"fused blocks in bf16", Blocks::kFused, fused},
        {"autograd in bf16", Blocks::kAutograd, autograd}}) {
    const double excess = MeanExcess(
        name, seeds,
        [&, blocks = blocks](uint64_t seed) {
          return EndLoss(blocks, ComputePrecision::kBfloat16, seed, batch);
        },
        [&](uint64_t seed) { return exact[seed - 1]; });
    EXPECT_LT(std::abs(excess), bound) << name;
  }
}

// Few examples show as much as few seeds do.
TEST(FusedBlocksTest, Bfloat16IsNotBroken) { ExpectLossesInBfloat16Stay(1, 2, kBroken, kBroken); }

TEST(FusedBlocksLossTest, Bfloat16CostsWhatIsClaimed) {
  ExpectLossesInBfloat16Stay(ClaimSeeds(), 8, 0.01, 0.02);
}

}  // namespace
}  // namespace longhaul
