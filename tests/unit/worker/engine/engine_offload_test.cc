// Training with state in host memory, against the same training without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/engine/engine_training.h"

namespace longhaul {
namespace {

TEST(EngineOffloadTest, OffloadingChangesNoBit) {
  uint64_t seed = 0;
  for (const char* preset : {"ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3"}) {
    for (const auto compute : {at::kFloat, at::kBFloat16}) {
      TrainingRun run{.nodes = {2, 2},
                      .partition = PartitionPreset(preset).value(),
                      .batch = 4,
                      .accumulation = 2,
                      .steps = 4,
                      .compute = compute};
      const Trained plain = Train(run);
      for (const UpdateScheduleOptions& schedule :
           {UpdateScheduleOptions{2, 0}, UpdateScheduleOptions{0, 0},
            UpdateScheduleOptions{3, 0.3}}) {
        for (const bool parameters : {false, true}) {
          if (parameters && run.partition.weights.level == Level::kRank) continue;
          SCOPED_TRACE(absl::StrCat(preset, " stride ", schedule.stride, " parameters ", parameters,
                                    compute == at::kFloat ? " float" : " bf16"));
          run.offload = Offload(schedule, parameters, ++seed);
          const Trained offloaded = Train(run);
          EXPECT_EQ(plain.losses, offloaded.losses);
          EXPECT_EQ(plain.norms, offloaded.norms);
          EXPECT_TRUE(plain.parameters == offloaded.parameters);
        }
      }
    }
  }
}

// The combination that other systems break: a secondary copy of weights on each node.
TEST(EngineOffloadTest, OffloadingWithASecondaryCopyChangesNoBit) {
  for (const bool tied : {false, true}) {
    TrainingRun run{.nodes = {2, 2},
                    .partition = {.weights = {Level::kPool},
                                  .secondary = Spread{Level::kNode},
                                  .gradients = {Level::kPool},
                                  .optimizer = Level::kPool},
                    .batch = 5,
                    .tied = tied,
                    .steps = 10};
    const Trained plain = Train(run);
    for (uint64_t seed = 1; seed < 4; ++seed) {
      run.offload = Offload({2, 0.2}, true, seed);
      EXPECT_TRUE(plain.parameters == Train(run).parameters) << seed;
    }
  }
}

// Each matrix goes whole, wherever it is updated; the rest is AdamW's, with a rate of its own.
TEST(EngineOffloadTest, OffloadingMuonChangesNoBit) {
  uint64_t seed = 0;
  for (const char* preset : {"ddp", "zero3", "zeropp"}) {
    for (const auto compute : {at::kFloat, at::kBFloat16}) {
      TrainingRun run{.nodes = {2},
                      .partition = PartitionPreset(preset).value(),
                      .batch = 4,
                      .steps = 4,
                      .compute = compute};
      run.optimizer =
          MuonOptions{.weight_decay = 0.1,
                      .adamw = {.weight_decay = 0.05, .moments = MomentPrecision::kBfloat16},
                      .adamw_rate = 0.3};
      const Trained plain = Train(run);
      for (const UpdateScheduleOptions& schedule :
           {UpdateScheduleOptions{1, 0}, UpdateScheduleOptions{0, 0}, UpdateScheduleOptions{2, 0.3},
            UpdateScheduleOptions{-1, 0}}) {
        SCOPED_TRACE(absl::StrCat(preset, " stride ", schedule.stride,
                                  compute == at::kFloat ? " float" : " bf16"));
        run.offload = Offload(schedule, run.partition.weights.level != Level::kRank, ++seed);
        const Trained offloaded = Train(run);
        EXPECT_EQ(plain.losses, offloaded.losses);
        EXPECT_TRUE(plain.parameters == offloaded.parameters);
      }
    }
  }
}

TEST(EngineOffloadTest, WhatCannotBeOffloadedIsRefused) {
  Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
  options.plan.optimizer = OneBitAdamOptions();
  options.plan.offload = Offload({2, 0}, false);
  EXPECT_EQ(Engine::Create(std::move(options)).status().code(), absl::StatusCode::kUnimplemented);
}

// Where a partition splits nothing, weights still come from host memory.
TEST(EngineOffloadTest, OffloadingIsExactInPoolsOfAnyShape) {
  for (const std::vector<int>& nodes : {std::vector<int>{1}, {3}, {1, 1}, {1, 2}}) {
    for (const char* preset : {"zero3", "zeropp"}) {
      TrainingRun run{.nodes = nodes, .partition = PartitionPreset(preset).value(), .batch = 4};
      if (run.partition.secondary.has_value() && nodes.back() == 2) continue;  // Uneven nodes.
      const Trained plain = Train(run);
      run.offload = Offload({2, 0}, true);
      EXPECT_TRUE(plain.parameters == Train(run).parameters)
          << preset << " on " << nodes.size() << " nodes, the last of " << nodes.back();
    }
  }
}

TEST(EngineOffloadTest, WeightsThatAreWholeStayOnTheDevice) {
  Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
  options.plan.offload = Offload({2, 0}, true);
  EXPECT_EQ(Engine::Create(std::move(options)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EngineOffloadTest, OffloadingIsExactWithThreadsAndAChosenStride) {
  TrainingRun run{.nodes = {2}, .partition = PartitionPreset("zero3").value(), .batch = 4};
  const Trained plain = Train(run);
  run.offload = {.optimizer = true, .parameters = true, .subgroup_elements = 256};
  EXPECT_TRUE(plain.parameters == Train(run).parameters);
}

// It has nobody to gather from, but its weights come from host memory.
TEST(EngineOffloadTest, ARankThatIsAloneGathersBesideItsComputation) {
  const std::string path = testing::TempDir() + "/engine_offload_trace.json";
  Engine::Options options = MakeOptions(Decoder(), "zero3", nullptr);
  options.plan.offload = Offload({2, 0}, true);
  options.site.trace_path = path;
  {
    const auto engine = Engine::Create(std::move(options)).value();
    const std::vector<int64_t> tokens = Tokens(1, {0, 1});
    ASSERT_TRUE(Step(*engine, {1, kContext, tokens}, kContext, 0.01).ok());
  }
  std::ifstream file(path);
  const std::string trace(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(trace, testing::HasSubstr("gathering embedding for forward"));
}

TEST(EngineOffloadTest, OffloadedStateIsReadAndWrittenAsAnyOther) {
  Saved middle;
  TrainHalf({2, 2}, "zero3", false, middle, Offload({2, 0.3}, true));
  Saved expected = middle;
  const std::vector<double> losses = TrainHalf({2, 2}, "zero3", true, expected);
  for (const char* preset : {"ddp", "zero1", "zero3"}) {
    Saved end = middle;
    const bool split = PartitionPreset(preset)->weights.level != Level::kRank;
    EXPECT_EQ(TrainHalf({2, 2}, preset, true, end, Offload({3, 0.3}, split)), losses) << preset;
    EXPECT_EQ(end.masters, expected.masters) << preset;
    EXPECT_EQ(end.first, expected.first) << preset;
    EXPECT_EQ(end.second, expected.second) << preset;
  }
}

TEST(EngineOffloadTest, OffloadedStateIsInHostMemory) {
  RunRanks(4, [](int, Communicator& communicator) {
    Engine::Options options = MakeOptions(Decoder(), "zero3", &communicator);
    options.plan.offload = Offload({0, 0}, true);
    const auto engine = Engine::Create(std::move(options)).value();
    const StateBytes bytes = engine->state_bytes();
    // What rests on the device are gradients.
    EXPECT_GE(bytes.host, bytes.optimizer + bytes.weights);
    EXPECT_EQ(engine->schedule()->device_share(), 0);
  });
}

// Nobody takes memory before all have looked.
TEST(EngineOffloadTest, ARankWithTooLittleMemoryTellsTheOthersBeforeTheyTakeAny) {
  RunRanks(3, [](int rank, Communicator& communicator) {
    Engine::Options options = MakeOptions(Decoder(), "zero3", &communicator);
    options.plan.offload = Offload({2, 0}, false);
    if (rank == 1) options.plan.offload.host_bytes = 1000;
    // It would say so if it were asked for memory.
    if (rank != 1) options.plan.offload.emulation.host_bytes_max = 1;
    const absl::Status status = Engine::Create(std::move(options)).status();
    if (rank == 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rank 1"));
    }
  });
}

TEST(EngineOffloadTest, OffloadingSaysHowMuchMemoryThereIsToo) {
  Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
  options.plan.offload = Offload({2, 0}, false);
  options.plan.offload.host_bytes = 1000;
  const absl::Status status = Engine::Create(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::ContainsRegex("this node needs 0.[1-9] MiB .* has 0.0 MiB left: 1 ranks"));
  options = MakeOptions(Decoder(), "ddp", nullptr);
  options.plan.offload = Offload({2, 0}, false);
  options.plan.offload.emulation.host_bytes_max = 1000;
  EXPECT_EQ(Engine::Create(std::move(options)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul
