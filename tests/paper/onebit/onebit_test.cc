// "1-bit Adam: communication efficient large-scale training with Adam's convergence speed" (arXiv
// 2102.02888), what it fails without, and the local steps of "0/1 Adam" (arXiv 2202.06009): the
// same data, order and initial parameters, four ranks, held-out loss after training, the variance
// frozen after 20 % of the steps.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/paper/held_out_loss.h"
#include "tests/paper/many_seeds.h"
#include "tests/testing/language_run.h"

namespace longhaul {
namespace {

constexpr AdamWOptions kAdam{.weight_decay = 0.01};
const OneBitAdamOptions kOneBit{.adamw = kAdam, .freeze_step = kComparedSteps / 5};

double LossOf(const OptimizerOptions& optimizer, uint64_t seed) {
  LanguageRun options = ComparedRun(seed);
  options.plan.optimizer = optimizer;
  return HeldOutLoss(options, kComparedRanks, kComparedSteps);
}

double AdamLoss(uint64_t seed) {
  static std::map<uint64_t, double> losses;
  const auto [found, added] = losses.try_emplace(seed);
  if (added) found->second = LossOf(kAdam, seed);
  return found->second;
}

// By how much of AdamW's loss.
double Excess(const char* name, const OptimizerOptions& optimizer, int seeds) {
  return MeanExcess(
      name, seeds, [&](uint64_t seed) { return LossOf(optimizer, seed); }, AdamLoss);
}

// The default of jobs.
OneBitAdamOptions ScaleOf512() {
  OneBitAdamOptions options = kOneBit;
  options.scale_block = 512;
  return options;
}

// Intervals of 1, 2 and, for more than half of the steps, 4.
OneBitAdamOptions LocalSteps() {
  OneBitAdamOptions options = kOneBit;
  options.local_step_scaler = kComparedSteps / 8;
  options.local_step_clipper = 4;
  return options;
}

struct Compressed {
  const char* name;
  OneBitAdamOptions options;
  // Of the loss, by which the mean may be above AdamW's.
  double claim;
};

// One scale for each tensor: as in the paper. The models are so small that it costs something.
std::vector<Compressed> EachCompressed() {
  return {{"1-bit Adam, a scale for 512 elements", ScaleOf512(), 0.015},
          {"1-bit Adam, a scale for each tensor", kOneBit, 0.02},
          {"0/1 Adam with local steps", LocalSteps(), 0.03}};
}

TEST(OneBitTest, IsNotBrokenAndNeedsBothItsParts) {
  double onebit = 0;
  for (const Compressed& one : EachCompressed()) {
    const double excess = Excess(one.name, one.options, 1);
    EXPECT_LE(excess, kBroken) << one.name;
    if (one.options.scale_block == kOneBit.scale_block && !one.options.local_step_scaler)
      onebit = excess;
  }
  OneBitAdamOptions options = kOneBit;
  options.error_feedback = false;
  EXPECT_GT(Excess("without error feedback", options, 1), 0.2);
  options = kOneBit;
  options.freeze_variance = false;
  const double adapting = Excess("with a variance that goes on", options, 1);
  EXPECT_GT(adapting, 0.03);
  EXPECT_GT(adapting, 3 * onebit);
}

TEST(OneBitLossTest, CompressionCostsWhatIsClaimed) {
  for (const Compressed& one : EachCompressed())
    EXPECT_LE(Excess(one.name, one.options, ClaimSeeds()), one.claim) << one.name;
}

}  // namespace
}  // namespace longhaul
