// What ZeRO++'s quantization costs in loss (arXiv 2306.10209, table 2 and figure 9; LoCo, arXiv
// 2407.04480): the same data, order and initial parameters in each partition, two nodes of two
// ranks, held-out loss after training.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/paper/held_out_loss.h"
#include "tests/paper/many_seeds.h"
#include "tests/testing/language_run.h"

namespace longhaul {
namespace {

double LossOf(const PartitionMap& map, uint64_t seed, int steps) {
  LanguageRun options = ComparedRun(seed);
  options.plan.partition = map;
  options.site.link.ranks_of_node = {2, 2};
  return HeldOutLoss(options, kComparedRanks, steps);
}

double ExactLoss(uint64_t seed, int steps) {
  static std::map<std::pair<uint64_t, int>, double> losses;
  const auto [found, added] = losses.try_emplace({seed, steps});
  if (added) found->second = LossOf(*PartitionPreset("zero3"), seed, steps);
  return found->second;
}

// Compared with the exact partition's loss.
double Excess(const char* name, const PartitionMap& map, int seeds, int steps) {
  return MeanExcess(
      name, seeds, [&](uint64_t seed) { return LossOf(map, seed, steps); },
      [&](uint64_t seed) { return ExactLoss(seed, steps); });
}

PartitionMap Zeropp() { return *PartitionPreset("zeropp"); }

// Those that reduce at the same moment add in the same order.
TEST(PartitionTest, ExactPartitionsStayEqualBitForBit) {
  constexpr int kSteps = 300;
  const double expected = LossOf(*PartitionPreset("zero3"), 1, kSteps);
  for (const char* preset : {"ddp", "zero1", "zero2"})
    EXPECT_EQ(LossOf(*PartitionPreset(preset), 1, kSteps), expected) << preset;
}

struct Quantized {
  const char* name;
  PartitionMap map;
  // Of the loss, by which the mean may be above the exact partition's.
  double claim;
};

std::vector<Quantized> EachQuantized() {
  PartitionMap weights = Zeropp(), feedback = Zeropp();
  weights.gradients.bits = 0;
  weights.secondary.reset();
  feedback.error_feedback = true;
  // LoCo: the error feedback is a moving average, with the values of DeepSpeed's documentation but
  // for the steps, of which a run here has few.
  PartitionMap averaged = feedback;
  averaged.error_beta = 0.8;
  averaged.error_reset_steps = 256;
  return {{"8-bit weights", weights, 0.005},
          {"4-bit gradients too", Zeropp(), 0.025},
          {"with error feedback", feedback, 0.01},
          {"with averaged error feedback", averaged, 0.01}};
}

TEST(PartitionTest, NoQuantizedPartitionIsBroken) {
  for (const Quantized& one : EachQuantized())
    EXPECT_LT(Excess(one.name, one.map, 1, kComparedSteps / 2), kBroken) << one.name;
}

TEST(PartitionLossTest, QuantizationCostsWhatIsClaimed) {
  for (const Quantized& one : EachQuantized())
    EXPECT_LT(Excess(one.name, one.map, ClaimSeeds(), kComparedSteps), one.claim) << one.name;
}

}  // namespace
}  // namespace longhaul
