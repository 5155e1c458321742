// Local steps of 0/1 Adam in a pool: when ranks synchronise, what it costs, and that nobody looks
// in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/worker/engine/onebit_training.h"

namespace longhaul {
namespace {

using testing::Each;

// Frozen after update 3; then intervals of 1 for two updates, 2 for two, and 4: updates 4, 5, 7,
// 11, 15 ... end with a synchronisation.
OneBitAdamOptions WithLocalSteps() {
  return {.freeze_step = kFreeze, .local_step_scaler = 2, .local_step_clipper = 4};
}

TEST(EngineSettleTest, RanksBecomeEqual) {
  for (const std::vector<int>& nodes : {std::vector<int>{2}, {3}, {5}, {2, 2}}) {
    for (const int steps : {6, 7, 13}) {
      OneBitRun run{.nodes = nodes, .optimizer = WithLocalSteps(), .steps = steps};
      run.ranks = 0;
      for (const int of_node : nodes) run.ranks += of_node;
      const OneBitResult result = TrainOneBit(run);
      EXPECT_THAT(result.parameters, Each(result.parameters[0])) << steps;
      for (const float value : result.parameters[0][1]) ASSERT_TRUE(std::isfinite(value));
    }
  }
  const OneBitResult narrow = TrainOneBit(
      {.ranks = 2, .optimizer = WithLocalSteps(), .steps = 13, .compute = at::kBFloat16});
  EXPECT_EQ(narrow.parameters[0], narrow.parameters[1]);
}

// Nothing crosses in a local step; a synchronisation takes what an update of 1-bit Adam takes.
TEST(EngineSettleTest, BytesFallAsTheIntervalGrows) {
  const std::vector<int64_t> onebit = TrainOneBit({.ranks = 4, .steps = 4}).gradient_bytes;
  const int64_t whole = onebit[0], coded = onebit[3];
  const OneBitRun run{.ranks = 4, .optimizer = WithLocalSteps(), .steps = 23};
  std::vector<int64_t> expected(23);
  for (const int step : {1, 2, 3}) expected[step - 1] = whole;
  for (const int step : {4, 5, 7, 11, 15, 19, 23}) expected[step - 1] = coded;
  EXPECT_EQ(TrainOneBit(run).gradient_bytes, expected);
  // Settled by need: once more, and the next interval begins there.
  OneBitRun settled = run;
  settled.settled = {4, 9, 13, 14};
  for (const int step : {11, 15, 19, 23}) expected[step - 1] = 0;
  for (const int step : {9, 13, 14, 18, 22, 23}) expected[step - 1] = coded;
  EXPECT_EQ(TrainOneBit(settled).gradient_bytes, expected);
}

TEST(EngineSettleTest, LocalStepsFollowTheVariancePolicy) {
  OneBitAdamOptions options = WithLocalSteps();
  options.var_update_scaler = 2;  // Updates 4, 5, 7, 9 change the variance.
  options.var_freeze_step = 8;
  const std::vector<int64_t> bytes =
      TrainOneBit({.ranks = 2, .optimizer = options, .steps = 14}).gradient_bytes;
  const int64_t whole = bytes[0], coded = bytes[5];
  EXPECT_LT(coded, whole / 15);
  EXPECT_EQ(bytes, (std::vector<int64_t>{whole, whole, whole, whole, whole, coded, whole, coded,
                                         coded, coded, 0, coded, 0, coded}));
}

TEST(EngineSettleTest, OneRankTakesNoLocalSteps) {
  EXPECT_EQ(TrainOneBit({.optimizer = WithLocalSteps(), .steps = 12}).parameters,
            TrainOneBit({.steps = 12}).parameters);
}

TEST(EngineSettleTest, NobodyLooksAtRanksThatDiffer) {
  const OneBitRun run{.ranks = 2, .optimizer = WithLocalSteps()};
  RunRanks(2, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
    for (int step = 1; step <= 6; ++step) ASSERT_TRUE(OneBitStep(*engine, step, rank, 2).ok());
    std::vector<float> values(8);
    const absl::Span<float> out = absl::MakeSpan(values);
    const std::vector<int64_t> tokens(kSequence + 1);
    const auto all = [&] {
      return std::vector<absl::Status>{engine->Read(0, 0, out),
                                       engine->Write(0, 0, values),
                                       engine->ReadState(OptimizerState::kMoment, 0, 0, out),
                                       engine->WriteState(OptimizerState::kMoment, 0, 0, values),
                                       engine->Publish({0}),
                                       engine->CopyWeights().status(),
                                       LossSum(*engine, {1, kSequence, tokens}).status()};
    };
    for (const absl::Status& status : all())
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    ASSERT_TRUE(engine->Settle().ok());
    for (const absl::Status& status : all()) EXPECT_TRUE(status.ok()) << status;
  });
}

// A rate that is far too large: the next gradient is not finite, and that step is skipped.
TEST(EngineSettleTest, AStepThatIsSkippedDoesNotKeepRanksApart) {
  const OneBitRun run{.ranks = 2, .optimizer = WithLocalSteps()};
  std::vector<Units> parameters(2);
  RunRanks(2, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
    for (int step = 1; step <= 5; ++step) ASSERT_TRUE(OneBitStep(*engine, step, rank, 2).ok());
    ASSERT_TRUE(OneBitStep(*engine, 6, rank, 2, 1e38).ok());
    const auto skipped = OneBitStep(*engine, 7, rank, 2);
    ASSERT_TRUE(skipped.ok()) << skipped.status();
    EXPECT_TRUE(skipped->skipped);
    EXPECT_EQ(GradientBytes(*skipped), 0);
    EXPECT_GT(GradientBytes(engine->Settle().value()), 0);
    parameters[rank] = ReadUnits(*engine);
  });
  EXPECT_EQ(parameters[0], parameters[1]);
}

// Of a settled pool: what is owed, and the number of updates, is all there is besides the moments.
TEST(EngineSettleTest, StateReadAndWrittenBackChangesNoBit) {
  constexpr int kRanks = 2, kSteps = 21;
  for (const int last : {2, 3, 4, 6, 9, 12}) {
    const OneBitRun run{
        .ranks = kRanks, .optimizer = WithLocalSteps(), .steps = kSteps, .settled = {last}};
    std::vector<RankState> saved(kRanks);
    RunRanks(kRanks, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
      for (int step = 1; step <= last; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      ASSERT_TRUE(engine->Settle().ok());
      saved[rank] = SaveState(*engine);
    });
    std::vector<Units> resumed(kRanks);
    RunRanks(kRanks, [&](int rank, Communicator& communicator) {
      at::set_num_threads(1);
      const auto engine = Engine::Create(OneBitOptions(run, communicator)).value();
      RestoreState(saved[rank], *engine);
      for (int step = last + 1; step <= kSteps; ++step)
        ASSERT_TRUE(OneBitStep(*engine, step, rank, kRanks).ok());
      ASSERT_TRUE(engine->Settle().ok());
      resumed[rank] = ReadUnits(*engine);
    });
    EXPECT_EQ(resumed, TrainOneBit(run).parameters) << last;
  }
}

}  // namespace
}  // namespace longhaul
