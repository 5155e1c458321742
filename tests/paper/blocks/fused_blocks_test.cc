// Blocks by hand train as blocks by autograd do: the same data, order and initial parameters, losses
// of all steps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kSteps = 300;
constexpr char kText[] = "/usr/share/common-licenses/GPL-3";

std::vector<double> Losses(BlockKind blocks, ComputePrecision precision) {
  const auto replica =
      TorchReplica::Create({.shape = {.layers = 2,
                                      .dim = 64,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .ff_dim = 128,
                                      .context = 64,
                                      .vocab = 256,
                                      .qk_norm = true},
                            .batch = 8,
                            .seed = 1,
                            .learning_rate = {.peak = 4e-3, .steps = kSteps, .warmup_steps = 30},
                            .optimizer = AdamWOptions{.weight_decay = 0.01},
                            .blocks = blocks,
                            .data_path = kText,
                            .precision = precision});
  EXPECT_TRUE(replica.ok()) << replica.status();
  std::vector<double> losses;
  for (int step = 1; step <= kSteps; ++step) losses.push_back((*replica)->Step(step)->loss);
  return losses;
}

// The largest difference of a step, and that of the means of the last 50 steps, by the loss.
struct Gap {
  double step = 0, end = 0;
};
Gap Compare(const std::vector<double>& a, const std::vector<double>& b) {
  Gap gap;
  double ends[2] = {};
  for (size_t i = 0; i < a.size(); ++i) {
    gap.step = std::max(gap.step, std::abs(a[i] / b[i] - 1));
    if (i + 50 < a.size()) continue;
    ends[0] += a[i];
    ends[1] += b[i];
  }
  gap.end = std::abs(ends[0] / ends[1] - 1);
  std::printf("losses differ by at most %.2e, at the end by %.2e\n", gap.step, gap.end);
  return gap;
}

TEST(FusedBlocksTest, LossesOf300StepsAreAutograds) {
  const auto fused = Losses(BlockKind::kFused, ComputePrecision::kFloat32);
  EXPECT_LT(fused.back(), 0.6 * fused.front());
  EXPECT_LT(Compare(fused, Losses(BlockKind::kAutograd, ComputePrecision::kFloat32)).step, 1e-3);
}

TEST(FusedBlocksTest, LossesInBfloat16StayNear) {
  const auto exact = Losses(BlockKind::kFused, ComputePrecision::kFloat32);
  const auto fused = Losses(BlockKind::kFused, ComputePrecision::kBfloat16);
  const auto autograd = Losses(BlockKind::kAutograd, ComputePrecision::kBfloat16);
  const Gap ours = Compare(fused, exact), theirs = Compare(autograd, exact);
  EXPECT_LT(ours.end, 0.01);
  EXPECT_LT(theirs.end, 0.02);
}

}  // namespace
}  // namespace longhaul
