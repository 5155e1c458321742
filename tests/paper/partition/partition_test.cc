// What ZeRO++'s quantization costs in loss (arXiv 2306.10209, table 2 and figure 9; LoCo, arXiv
// 2407.04480): the same data, order and initial parameters in each partition, two nodes of two
// ranks, held-out loss after training.
#include <gtest/gtest.h>

#include <map>

#include "tests/paper/held_out_loss.h"
#include "tests/paper/many_seeds.h"

namespace longhaul {
namespace {

// Few seeds only show that nothing is broken, and few steps do, too.
int StepsToCompare() { return Seeds(1) < kEnoughSeeds ? kComparedSteps / 2 : kComparedSteps; }

double LossOf(const PartitionMap& map, uint64_t seed, int steps = StepsToCompare()) {
  TorchReplica::Options options = ComparedRun(seed);
  options.partition = map;
  options.ranks_of_node = {2, 2};
  return HeldOutLoss(options, kComparedRanks, steps);
}

double ExactLoss(uint64_t seed) {
  static std::map<uint64_t, double> losses;
  const auto [found, added] = losses.try_emplace(seed);
  if (added) found->second = LossOf(*PartitionPreset("zero3"), seed);
  return found->second;
}

// Compares with the exact partition's loss.
void ExpectExcessBelow(double bound, const char* name, const PartitionMap& map) {
  const int seeds = Seeds(1);
  EXPECT_LT(MeanExcess(
                name, seeds, [&](uint64_t seed) { return LossOf(map, seed); }, ExactLoss),
            BoundFor(seeds, bound));
}

PartitionMap Zeropp() { return *PartitionPreset("zeropp"); }

// Those that reduce at the same moment add in the same order.
TEST(PartitionTest, ExactPartitionsStayEqualBitForBit) {
  constexpr int kSteps = 300;
  const double expected = LossOf(*PartitionPreset("zero3"), 1, kSteps);
  for (const char* preset : {"ddp", "zero1", "zero2"})
    EXPECT_EQ(LossOf(*PartitionPreset(preset), 1, kSteps), expected) << preset;
}

TEST(PartitionTest, EightBitWeights) {
  PartitionMap map = Zeropp();
  map.gradients.bits = 0;
  map.secondary.reset();
  ExpectExcessBelow(0.005, "8-bit weights", map);
}

TEST(PartitionTest, FourBitGradientsToo) {
  ExpectExcessBelow(0.025, "4-bit gradients too", Zeropp());
}

TEST(PartitionTest, FourBitGradientsWithErrorFeedback) {
  PartitionMap map = Zeropp();
  map.error_feedback = true;
  ExpectExcessBelow(0.01, "with error feedback", map);
}

// LoCo: the error feedback is a moving average, with the values of DeepSpeed's documentation but
// for the steps, of which a run here has few.
TEST(PartitionTest, FourBitGradientsWithAveragedErrorFeedback) {
  PartitionMap map = Zeropp();
  map.error_feedback = true;
  map.error_beta = 0.8;
  map.error_reset_steps = 256;
  ExpectExcessBelow(0.01, "with averaged error feedback", map);
}

}  // namespace
}  // namespace longhaul
