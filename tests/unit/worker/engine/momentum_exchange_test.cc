#include "worker/engine/momentum_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "ATen/Parallel.h"
#include "common/base/random.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/data/windows.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

using testing::Each;

constexpr int64_t kSequence = 8, kWords = 11, kUsedWords = 7;
constexpr int kFreeze = 3;
using Units = std::vector<std::vector<float>>;

struct OneBitRun {
  int ranks = 1;
  std::vector<int> nodes = {};
  OptimizerOptions optimizer = OneBitAdamOptions{.freeze_step = kFreeze};
  int steps = 6;
  double clip_norm = 0;
  int accumulation = 1;
  at::ScalarType compute = at::kFloat;
};

struct OneBitResult {
  std::vector<Units> parameters;   // Of every rank, all of them.
  std::vector<StepResult> steps;   // Of rank 0.
  std::vector<int64_t> frozen_at;  // Of rank 0, after each step.
};

Engine::Options OneBitOptions(const OneBitRun& run, Communicator& communicator) {
  return {.model = TransformerLm::Create({.layers = 2,
                                          .dim = 16,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .ff_dim = 24,
                                          .context = kSequence,
                                          .vocab = kWords},
                                         at::kCPU)
                       .value(),
          .link = {.communicator = &communicator, .ranks_of_node = run.nodes},
          .compute = run.compute,
          .optimizer = run.optimizer,
          .clip_norm = run.clip_norm,
          .seed = 4,
          .accumulation = run.accumulation};
}

Units ReadUnits(const Engine& engine) {
  Units units;
  for (int unit = 0; unit < static_cast<int>(engine.layout().units.size()); ++unit) {
    units.emplace_back(engine.layout().units[unit].elements);
    EXPECT_TRUE(engine.Read(unit, 0, absl::MakeSpan(units.back())).ok());
  }
  return units;
}

// A step on four sequences of the pool, of tokens below kUsedWords.
absl::StatusOr<StepResult> OneBitStep(Engine& engine, int step, int rank, int ranks) {
  const Share share = ShareOf(4, rank, ranks);
  std::vector<int64_t> tokens;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(100 * step + s);
    for (int i = 0; i <= kSequence; ++i)
      tokens.push_back(static_cast<int64_t>(random.Below(kUsedWords)));
  }
  return engine.Step({share.count, kSequence, tokens}, 4 * kSequence, 0.01);
}

OneBitResult TrainOneBit(const OneBitRun& run) {
  OneBitResult result;
  result.parameters.resize(run.ranks);
  std::mutex mutex;
  RunRanks(run.ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto made = Engine::Create(OneBitOptions(run, communicator));
    ASSERT_TRUE(made.ok()) << made.status();
    Engine& engine = **made;
    for (int step = 1; step <= run.steps; ++step) {
      const auto stats = OneBitStep(engine, step, rank, run.ranks);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank != 0) continue;
      result.steps.push_back(*stats);
      result.frozen_at.push_back(engine.phase().frozen_at);
    }
    const std::lock_guard lock(mutex);
    result.parameters[rank] = ReadUnits(engine);
  });
  return result;
}

// What the gradients of a step cost a rank.
int64_t GradientBytes(const StepResult& step) {
  int64_t bytes = 0;
  for (const Level level : {Level::kPair, Level::kNode, Level::kPool})
    bytes += step.received.Total(Use::kGradient, level);
  return bytes;
}

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

// Of the pool's steps from the freeze on, against one rank's on the same batch, which are exact.
TEST(MomentumExchangeTest, CompressionKeepsTheDirection) {
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
  EXPECT_GT(dot / std::sqrt(a * b), 0.6);
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

TEST(MomentumExchangeTest, ClipsByTheRanksOwnNorms) {
  const OneBitResult alone = TrainOneBit({.ranks = 1}), pool = TrainOneBit({.ranks = 4});
  // One rank's is the mean's; up to the freeze all agree.
  EXPECT_NEAR(pool.steps[kFreeze - 1].gradient_norm, alone.steps[kFreeze - 1].gradient_norm, 1e-4);
  EXPECT_GT(pool.steps[kFreeze].gradient_norm, alone.steps[kFreeze].gradient_norm);
  EXPECT_NE(TrainOneBit({.ranks = 4, .clip_norm = 0.01}).parameters[0], pool.parameters[0]);
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

// Everything that a rank knows between two steps.
struct RankState {
  Units parameters, moment, variance, worker, server;
  OptimizerPhase phase;
};

RankState SaveState(Engine& engine) {
  RankState state{.parameters = ReadUnits(engine), .phase = engine.phase()};
  for (int unit = 0; unit < static_cast<int>(state.parameters.size()); ++unit) {
    for (const auto& [kind, values] : {std::pair{OptimizerState::kMoment, &state.moment},
                                       {OptimizerState::kVariance, &state.variance}}) {
      values->emplace_back(state.parameters[unit].size());
      EXPECT_TRUE(engine.ReadState(kind, unit, 0, absl::MakeSpan(values->back())).ok());
    }
    const auto worker = engine.FeedbackOf(Feedback::kWorker, unit);
    const auto server = engine.FeedbackOf(Feedback::kServer, unit);
    state.worker.emplace_back(worker.begin(), worker.end());
    state.server.emplace_back(server.begin(), server.end());
  }
  return state;
}

void RestoreState(const RankState& state, Engine& engine) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(state.parameters.size()); ++unit) {
    ASSERT_TRUE(engine.Write(unit, 0, state.parameters[unit]).ok());
    ASSERT_TRUE(engine.WriteState(OptimizerState::kMoment, unit, 0, state.moment[unit]).ok());
    ASSERT_TRUE(engine.WriteState(OptimizerState::kVariance, unit, 0, state.variance[unit]).ok());
    units.push_back(unit);
  }
  ASSERT_TRUE(engine.Publish(units).ok());
  ASSERT_TRUE(engine.PublishState(state.phase).ok());
  for (const int unit : units) {
    for (const auto& [end, values] : {std::pair{Feedback::kWorker, &state.worker[unit]},
                                      {Feedback::kServer, &state.server[unit]}}) {
      const absl::Span<float> to = engine.FeedbackOf(end, unit);
      ASSERT_EQ(to.size(), values->size());
      std::copy(values->begin(), values->end(), to.begin());
    }
  }
}

TEST(MomentumExchangeTest, StateReadAndWrittenBackChangesNoBit) {
  constexpr int kRanks = 2, kSteps = 8;
  for (const int saved_after : {2, 5}) {  // In the warm-up, and compressing.
    std::vector<RankState> saved(kRanks);
    RunRanks(kRanks, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      for (int step = 1; step <= saved_after; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      saved[rank] = SaveState(*engine);
      EXPECT_EQ(engine->state_bytes().error_feedback > 0, saved_after > kFreeze);
    });
    std::vector<Units> resumed(kRanks);
    RunRanks(kRanks, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions({}, communicator)).value();
      RestoreState(saved[rank], *engine);
      for (int step = saved_after + 1; step <= kSteps; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      resumed[rank] = ReadUnits(*engine);
    });
    EXPECT_EQ(resumed, TrainOneBit({.ranks = kRanks, .steps = kSteps}).parameters);
  }
}

TEST(MomentumExchangeTest, IsRefusedWhereSomethingIsSplit) {
  for (const char* preset : {"zero1", "zero2", "zero3", "zeropp", "frontier3"}) {
    RunRanks(2, [&](int, Communicator& communicator) {
      Engine::Options options = OneBitOptions({}, communicator);
      options.partition = PartitionPreset(preset).value();
      const auto engine = Engine::Create(std::move(options));
      EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnimplemented) << preset;
    });
  }
}

}  // namespace
}  // namespace longhaul
