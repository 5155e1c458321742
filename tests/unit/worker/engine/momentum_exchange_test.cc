#include "worker/engine/momentum_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/share.h"
#include "tests/unit/worker/engine/onebit_training.h"

namespace longhaul {
namespace {

using testing::Each;

TEST(MomentumExchangeTest, TheWarmUpIsAdamWBitForBit) {
  const OptimizerOptions onebit = OneBitAdamOptions{.freeze_step = kFreeze}, adamw = AdamWOptions{};
  for (const int ranks : {1, 2, 4}) {
    const auto train = [&](const OptimizerOptions& optimizer, int steps) {
      return TrainOneBit({.ranks = ranks, .optimizer = optimizer, .steps = steps, .clip_norm = 0.5})
          .parameters;
    };
    EXPECT_EQ(train(onebit, kFreeze), train(adamw, kFreeze)) << ranks << " ranks";
    EXPECT_NE(train(onebit, kFreeze + 1), train(adamw, kFreeze + 1)) << "nothing was frozen";
  }
}

TEST(MomentumExchangeTest, EveryRankHasTheSameParameters) {
  for (const std::vector<int>& nodes : {std::vector<int>{2}, {3}, {4}, {5}, {2, 2}, {2, 1}}) {
    for (const int accumulation : {1, 2}) {
      OneBitRun run{.nodes = nodes, .accumulation = accumulation};
      run.ranks = 0;
      for (const int of_node : nodes) run.ranks += of_node;
      const OneBitResult result = TrainOneBit(run);
      EXPECT_THAT(result.parameters, Each(result.parameters[0]));
      for (const float value : result.parameters[0][1]) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(MomentumExchangeTest, ComputesInBfloat16Too) {
  const OneBitResult result = TrainOneBit({.ranks = 2, .compute = at::kBFloat16});
  EXPECT_EQ(result.parameters[0], result.parameters[1]);
  EXPECT_EQ(result.frozen_at.back(), kFreeze);
}

// What one rank sums over micro-batches is what it compresses.
TEST(MomentumExchangeTest, AccumulationIsOneLargeBatch) {
  const auto first_norms = [](int accumulation) {
    const OneBitResult result = TrainOneBit({.ranks = 2, .accumulation = accumulation});
    return result.steps[kFreeze].gradient_norm;
  };
  EXPECT_NEAR(first_norms(2), first_norms(1), 1e-3 * first_norms(1));
}

TEST(MomentumExchangeTest, SendsABitForEachElementEachWay) {
  for (const int ranks : {2, 4}) {
    const OneBitResult result = TrainOneBit({.ranks = ranks});
    EXPECT_EQ(result.frozen_at, (std::vector<int64_t>{0, 0, 0, kFreeze, kFreeze, kFreeze}));
    constexpr auto kGradient = static_cast<size_t>(Use::kGradient);
    int64_t signs = 0;
    for (const int64_t bytes : result.steps[kFreeze].received.payload[kGradient]) signs += bytes;
    int64_t elements = 0, own = 0;  // Rank 0 averages the first blocks of each unit.
    RunRanks(ranks, [&](int rank, Communicator& communicator) {
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      if (rank != 0) return;
      for (int unit = 0; unit < static_cast<int>(engine->layout().units.size()); ++unit) {
        elements += engine->layout().units[unit].elements;
        own += engine->plan().owned(unit).count;
      }
    });
    EXPECT_EQ(own % 8, 0);
    EXPECT_EQ(signs, (ranks - 1) * own / 8 + (elements - own) / 8);
    EXPECT_LT(GradientBytes(result.steps[kFreeze]), GradientBytes(result.steps[0]) / 15);
    EXPECT_EQ(result.steps[kFreeze].gradients_nmse, 0);  // Of the step before.
    EXPECT_GT(result.steps[kFreeze + 1].gradients_nmse, 0.1);
    EXPECT_LT(result.steps[kFreeze + 1].gradients_nmse, 1);
  }
}

TEST(MomentumExchangeTest, OneRankCompressesNothing) {
  const OneBitResult result = TrainOneBit({});
  EXPECT_EQ(result.frozen_at.back(), kFreeze);
  EXPECT_EQ(result.steps.back().gradients_nmse, 0);
  EXPECT_EQ(GradientBytes(result.steps.back()), 0);
}

// What each of two ranks owes after the first update behind the freeze: `factor` times the momentum
// of its own mean gradient, less its sign by one scale for each tensor.
void ExpectOwedOfOwnGradients(const OneBitAdamOptions& options, double factor) {
  constexpr int kRanks = 2;
  std::vector<RankState> frozen(kRanks), after(kRanks);
  ModelLayout layout;
  RunRanks(kRanks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto engine = Engine::Create(OneBitOptions({.optimizer = options}, communicator)).value();
    for (int step = 1; step <= kFreeze; ++step)
      ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
    frozen[rank] = SaveState(*engine);
    ASSERT_TRUE(OneBitStep(*engine, kFreeze + 1, rank, kRanks).ok());
    after[rank] = SaveState(*engine);
    if (rank == 0) layout = engine->layout();
  });
  frozen[0].phase.frozen_at = kFreeze;
  const Units& variance = frozen[0].variance;
  for (int rank = 0; rank < kRanks; ++rank) {
    Units moment;
    RunRanks(1, [&](int, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      RestoreState(frozen[0], *engine);
      const Share share = ShareOf(4, rank, kRanks);
      const std::vector<int64_t> tokens = OneBitTokens(kFreeze + 1, share);
      const int64_t count = share.count * kSequence;
      ASSERT_TRUE(Step(*engine, {share.count, kSequence, tokens}, count, 0).ok());
      moment = SaveState(*engine).moment;
    });
    for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
      for (const TensorLayout& tensor : layout.units[unit].tensors) {
        double squares = 0, present = 0;
        const int64_t end = tensor.offset + tensor.elements;
        for (int64_t i = tensor.offset; i < end; ++i) {
          if (variance[unit][i] == 0) continue;
          squares += std::pow(factor * moment[unit][i], 2);
          ++present;
        }
        const double scale = std::sqrt(squares / present);
        for (int64_t i = tensor.offset; i < end; ++i) {
          const double u = factor * moment[unit][i];
          // The sign of what is nearly zero may differ.
          if (std::abs(u) < 1e-4 * scale) continue;
          const double owed = variance[unit][i] > 0 ? u - std::copysign(scale, u) : 0;
          ASSERT_NEAR(after[rank].worker[unit][i], owed, 1e-4 * scale) << tensor.name;
        }
      }
    }
  }
}

TEST(MomentumExchangeTest, EachRankCompressesTheMomentumOfItsOwnGradient) {
  ExpectOwedOfOwnGradients({.freeze_step = kFreeze}, 1);
}

// A local step that is synchronised at once: u = gamma m.
TEST(MomentumExchangeTest, EachRankCompressesItsOwnSteps) {
  ExpectOwedOfOwnGradients({.freeze_step = kFreeze, .local_step_scaler = 2},
                           0.01 / (1 - std::pow(0.9, kFreeze + 1)));
}

// Of the pool's steps from the freeze on, against one rank's on the same batch, which are exact.
TEST(MomentumExchangeTest, CompressionKeepsTheDirectionAndTheScale) {
  const OneBitResult before = TrainOneBit({.ranks = 2, .steps = kFreeze});
  const OneBitResult exact = TrainOneBit({.ranks = 1, .steps = 6});
  const OneBitResult compressed = TrainOneBit({.ranks = 2, .steps = 6});
  double dot = 0, a = 0, b = 0;
  for (size_t unit = 0; unit < exact.parameters[0].size(); ++unit) {
    for (size_t i = 0; i < exact.parameters[0][unit].size(); ++i) {
      const double x = exact.parameters[0][unit][i] - before.parameters[0][unit][i];
      const double y = compressed.parameters[0][unit][i] - before.parameters[0][unit][i];
      dot += x * y, a += x * x, b += y * y;
    }
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.65);
  // The scale is that of the momentum: elements of little variance, which it does not know, take
  // longer steps.
  EXPECT_GT(std::sqrt(b / a), 1);
  EXPECT_LT(std::sqrt(b / a), 2);
}

// The rows of tokens that never occurred have no gradient, so no variance to be scaled by.
TEST(MomentumExchangeTest, ParametersWithoutGradientStay) {
  const OneBitResult start = TrainOneBit({.ranks = 2, .steps = 0});
  const OneBitResult end = TrainOneBit({.ranks = 2, .steps = 12});
  const std::vector<float>&first = start.parameters[0][0], &last = end.parameters[0][0];
  ASSERT_EQ(first.size(), kWords * 16u);
  for (size_t i = 0; i < first.size(); ++i) {
    // The others move at the rate's pace.
    const double bound = i < kUsedWords * 16u ? 12 * 0.01 * 3 : 0;
    EXPECT_LE(std::abs(first[i] - last[i]), bound) << i;
  }
}

// The root mean square of the norms of the ranks' own gradients, each of its own sequences.
TEST(MomentumExchangeTest, ClipsByTheRanksOwnNorms) {
  const OneBitResult before = TrainOneBit({.ranks = 4, .steps = kFreeze});
  const OneBitResult alone = TrainOneBit({.ranks = 1}), pool = TrainOneBit({.ranks = 4});
  // Up to the freeze it is the mean gradient's.
  EXPECT_NEAR(pool.steps[kFreeze - 1].gradient_norm, alone.steps[kFreeze - 1].gradient_norm, 1e-5);
  double squares = 0;
  for (int rank = 0; rank < 4; ++rank) {
    RunRanks(1, [&](int, Communicator& communicator) {
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      for (int unit = 0; unit < static_cast<int>(before.parameters[0].size()); ++unit)
        ASSERT_TRUE(engine->Write(unit, 0, before.parameters[0][unit]).ok());
      const Share share = ShareOf(4, rank, 4);
      const auto stats = Step(*engine, {share.count, kSequence, OneBitTokens(kFreeze + 1, share)},
                              share.count * kSequence, 0);
      squares += stats->gradient_norm * stats->gradient_norm / 4;
    });
  }
  const double expected = std::sqrt(squares);
  EXPECT_NEAR(pool.steps[kFreeze].gradient_norm, expected, 1e-5 * expected);
  EXPECT_GT(expected, 1.1 * alone.steps[kFreeze].gradient_norm);
  EXPECT_NE(TrainOneBit({.ranks = 4, .clip_norm = 0.01}).parameters[0], pool.parameters[0]);
}

// m = beta1 m + (1 - beta1) s g, with the factor s of clipping.
TEST(MomentumExchangeTest, ClippingScalesWhatEntersTheMomentum) {
  RunRanks(1, [](int, Communicator& communicator) {
    at::set_num_threads(1);
    RankState saved;
    double norm = 0;
    const auto moment_after = [&](double clip_norm) {
      const auto engine = Engine::Create(OneBitOptions({.clip_norm = clip_norm}, communicator));
      RestoreState(saved, **engine);
      norm = OneBitStep(**engine, kFreeze + 1, 0, 1)->gradient_norm;
      return SaveState(**engine).moment;
    };
    {
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      for (int step = 1; step <= kFreeze; ++step) ASSERT_TRUE(OneBitStep(*engine, step, 0, 1).ok());
      saved = SaveState(*engine);
    }
    saved.phase.frozen_at = kFreeze;
    const Units whole = moment_after(0), clipped = moment_after(0.25);
    ASSERT_GT(norm, 0.5);
    const double scale = 0.25 / (norm + 1e-6);
    for (size_t unit = 0; unit < whole.size(); ++unit) {
      for (size_t i = 0; i < whole[unit].size(); ++i) {
        const double kept = 0.9 * saved.moment[unit][i];
        ASSERT_NEAR(clipped[unit][i] - kept, scale * (whole[unit][i] - kept), 1e-7) << unit;
      }
    }
  });
}

TEST(MomentumExchangeTest, FreezesByItselfWhenTheVarianceStandsStill) {
  OneBitAdamOptions options{.adamw = {.beta2 = 0.5}, .freeze_ratio = 0.01, .freeze_not_before = 3};
  const OneBitResult result = TrainOneBit({.ranks = 2, .optimizer = options});
  // A window of two updates: looked at after 2, with nothing to compare, and after 4.
  EXPECT_EQ(result.frozen_at, (std::vector<int64_t>{0, 0, 0, 0, 4, 4}));
  EXPECT_EQ(result.parameters[0], result.parameters[1]);
  options.freeze_ratio = 1e9;
  EXPECT_EQ(TrainOneBit({.ranks = 2, .optimizer = options}).frozen_at.back(), 0);
}

// The variance policy of 0/1 Adam: updates 4, 5, 7, 9 after the freeze at 3 reduce gradients, the
// others exchange momentum, to the byte.
TEST(MomentumExchangeTest, UpdatesThatChangeTheVarianceReduceGradients) {
  OneBitAdamOptions options{.freeze_step = kFreeze, .var_update_scaler = 2};
  const OneBitResult frozen = TrainOneBit({.ranks = 2, .steps = 4});
  const OneBitResult result = TrainOneBit({.ranks = 2, .optimizer = options, .steps = 10});
  EXPECT_EQ(result.parameters[0], result.parameters[1]);
  const int64_t whole = GradientBytes(frozen.steps[0]), compressed = GradientBytes(frozen.steps[3]);
  for (int step = 1; step <= 10; ++step) {
    const bool changes = step <= 5 || step == 7 || step == 9;
    EXPECT_EQ(GradientBytes(result.steps[step - 1]), changes ? whole : compressed) << step;
  }
  // One rank compresses nothing: there the policy with a large scaler is AdamW, but for rounding.
  options.var_update_scaler = 1000;
  const Units adamw = TrainOneBit({.optimizer = AdamWOptions{}, .steps = 8}).parameters[0];
  const Units changing = TrainOneBit({.optimizer = options, .steps = 8}).parameters[0];
  for (size_t unit = 0; unit < adamw.size(); ++unit) {
    for (size_t i = 0; i < adamw[unit].size(); ++i)
      ASSERT_NEAR(changing[unit][i], adamw[unit][i], 1e-5);
  }
}

TEST(MomentumExchangeTest, StateReadAndWrittenBackChangesNoBit) {
  constexpr int kRanks = 2, kSteps = 9;
  // In the warm-up, and compressing; where the variance goes on to change, before, in the middle of
  // and behind such updates.
  for (const auto& [last, scaler] : {std::pair{2, 0}, {5, 0}, {2, 2}, {4, 2}, {6, 2}, {7, 2}}) {
    const OneBitRun run{
        .ranks = kRanks,
        .optimizer = OneBitAdamOptions{.freeze_step = kFreeze, .var_update_scaler = scaler},
        .steps = kSteps};
    std::vector<RankState> saved(kRanks);
    RunRanks(kRanks, [&, last = last](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
      for (int step = 1; step <= last; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      saved[rank] = SaveState(*engine);
      EXPECT_EQ(engine->state_bytes().error_feedback > 0, last > kFreeze);
    });
    std::vector<Units> resumed(kRanks);
    RunRanks(kRanks, [&, last = last](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
      RestoreState(saved[rank], *engine);
      for (int step = last + 1; step <= kSteps; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      resumed[rank] = ReadUnits(*engine);
    });
    EXPECT_EQ(resumed, TrainOneBit(run).parameters) << last << ", " << scaler;
  }
}

TEST(MomentumExchangeTest, IsRefusedWhereSomethingIsSplit) {
  for (const char* preset : {"zero1", "zero2", "zero3", "zeropp", "frontier3"}) {
    RunRanks(2, [&](int, Communicator& communicator) {
      Engine::Options options = OneBitOptions({}, communicator);
      options.plan.partition = PartitionPreset(preset).value();
      const auto engine = Engine::Create(std::move(options));
      EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnimplemented) << preset;
    });
  }
}

}  // namespace
}  // namespace longhaul
