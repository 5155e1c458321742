// What ZeRO++'s quantization costs in loss (arXiv 2306.10209, table 2 and figure 9; LoCo, arXiv
// 2407.04480): the same data, order and initial parameters in each partition, two nodes of two
// ranks, held-out loss after training.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "worker/collective/thread_communicator.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kSteps = 300;
constexpr char kText[] = "/usr/share/common-licenses/GPL-3";

double HeldOutLoss(const PartitionMap& map) {
  auto communicators = MakeThreadCommunicators(4);
  std::vector<std::thread> ranks;
  double loss = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto replica = TorchReplica::Create(
          {.shape = {.layers = 2,
                     .dim = 64,
                     .heads = 4,
                     .kv_heads = 4,
                     .ff_dim = 128,
                     .context = 64,
                     .vocab = 256},
           .batch = 8,
           .seed = 1,
           .learning_rate = {.peak = 4e-3, .steps = kSteps, .warmup_steps = 30},
           .adamw = {.weight_decay = 0.01},
           .partition = map,
           .data_path = kText,
           .eval_batches = 8,
           .communicator = communicators[rank].get(),
           .ranks_of_node = {2, 2}});
      ASSERT_TRUE(replica.ok()) << replica.status();
      for (int step = 1; step <= kSteps; ++step) ASSERT_TRUE((*replica)->Step(step).ok());
      const auto evaluated = (*replica)->Evaluate();
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      if (rank == 0) loss = evaluated->loss;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return loss;
}

double ExactLoss() {
  static const double loss = HeldOutLoss(*PartitionPreset("zero3"));
  return loss;
}

// By how much of the exact partition's loss.
double Excess(const PartitionMap& map) {
  const double exact = ExactLoss();
  const double quantized = HeldOutLoss(map);
  std::printf("held-out loss %.4f, exact %.4f: %+.2f %%\n", quantized, exact,
              100 * (quantized / exact - 1));
  return quantized / exact - 1;
}

PartitionMap Zeropp() { return *PartitionPreset("zeropp"); }

// Those that reduce at the same moment add in the same order.
TEST(PartitionTest, ExactPartitionsStayEqualBitForBit) {
  for (const char* preset : {"ddp", "zero1", "zero2"})
    EXPECT_EQ(HeldOutLoss(*PartitionPreset(preset)), ExactLoss()) << preset;
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
