// What ZeRO++'s quantization costs in loss (arXiv 2306.10209, table 2 and figure 9; LoCo, arXiv
// 2407.04480): the same data, order and initial parameters in each partition, two nodes of two
// ranks, held-out loss after training.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/paper/held_out_loss.h"

namespace longhaul {
namespace {

constexpr int kSteps = 300;
constexpr char kText[] = "/usr/share/common-licenses/GPL-3";

double LossOf(const PartitionMap& map) {
  return HeldOutLoss({.shape = {.layers = 2,
                                .dim = 64,
                                .heads = 4,
                                .kv_heads = 4,
                                .ff_dim = 128,
                                .context = 64,
                                .vocab = 256},
                      .batch = 8,
                      .seed = 1,
                      .learning_rate = {.peak = 4e-3, .steps = kSteps, .warmup_steps = 30},
                      .optimizer = AdamWOptions{.weight_decay = 0.01},
                      .partition = map,
                      .data_path = kText,
                      .eval_batches = 8,
                      .ranks_of_node = {2, 2}},
                     /*ranks=*/4, kSteps);
}

double ExactLoss() {
  static const double loss = LossOf(*PartitionPreset("zero3"));
  return loss;
}

// By how much of the exact partition's loss.
double Excess(const PartitionMap& map) {
  const double exact = ExactLoss();
  const double quantized = LossOf(map);
  std::printf("held-out loss %.4f, exact %.4f: %+.2f %%\n", quantized, exact,
              100 * (quantized / exact - 1));
  return quantized / exact - 1;
}

PartitionMap Zeropp() { return *PartitionPreset("zeropp"); }

// Those that reduce at the same moment add in the same order.
TEST(PartitionTest, ExactPartitionsStayEqualBitForBit) {
  for (const char* preset : {"ddp", "zero1", "zero2"})
    EXPECT_EQ(LossOf(*PartitionPreset(preset)), ExactLoss()) << preset;
}

TEST(PartitionTest, EightBitWeights) {
  PartitionMap map = Zeropp();
  map.gradients.bits = 0;
  map.secondary.reset();
  EXPECT_LT(Excess(map), 0.005);
}

TEST(PartitionTest, FourBitGradientsToo) { EXPECT_LT(Excess(Zeropp()), 0.025); }

TEST(PartitionTest, FourBitGradientsWithErrorFeedback) {
  PartitionMap map = Zeropp();
  map.error_feedback = true;
  EXPECT_LT(Excess(map), 0.01);
}

}  // namespace
}  // namespace longhaul
