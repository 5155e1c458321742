#include "worker/trainer/torch_replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "tests/testing/language_run.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

std::string WriteText() {
  return WrittenOnce("torch_replica_text", [](std::ostream& file) {
    for (int i = 0; i < 400; ++i)
      file << "the quick brown fox " << i % 7 << " jumps over the lazy dog\n";
  });
}

// Of the same text, as nanoGPT has tokens.
std::string WriteTokens() {
  std::ifstream text(WriteText());
  return WrittenOnce("torch_replica_tokens", [&text](std::ostream& file) {
    for (char byte = 0; text.get(byte);) file << byte << '\0';
  });
}

LanguageRun TinyOptions() {
  return {.plan = {.batch = 4,
                   .seed = 5,
                   .learning_rate = {.peak = 5e-3, .steps = 100, .warmup_steps = 5},
                   .optimizer = AdamWOptions{.weight_decay = 0.01},
                   .eval_batches = 2},
          .language = {.shape = {.layers = 2,
                                 .dim = 32,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .ff_dim = 64,
                                 .context = 32,
                                 .vocab = 256},
                       .sources = {{.source = {.path = WriteText()}}}}};
}

std::vector<std::vector<float>> ReadAll(Replica& replica) {
  std::vector<std::vector<float>> units;
  for (int unit = 0; unit < static_cast<int>(replica.layout().units.size()); ++unit) {
    units.emplace_back(replica.layout().units[unit].elements);
    EXPECT_TRUE(replica.Read(unit, 0, absl::MakeSpan(units.back())).ok());
  }
  return units;
}

TEST(TorchReplicaTest, LossFallsOnText) {
  const auto replica = CreateReplica(TinyOptions()).value();
  const double before = replica->Evaluate()->loss;
  EXPECT_NEAR(before, std::log(256), 0.1);
  for (int step = 1; step <= 60; ++step) {
    const auto stats = replica->Step(step);
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->tokens, 4 * 32);
    EXPECT_GT(stats->gradient_norm, 0);
    EXPECT_GT(stats->compute_seconds, 0);
  }
  const auto after = replica->Evaluate();
  EXPECT_LT(after->loss, 2.5);
  EXPECT_EQ(after->tokens, 2 * 4 * 32);
}

TEST(TorchReplicaTest, SameSeedGivesTheSameBits) {
  const auto first = CreateReplica(TinyOptions()).value();
  const auto second = CreateReplica(TinyOptions()).value();
  for (int step = 1; step <= 5; ++step)
    EXPECT_EQ(first->Step(step)->loss, second->Step(step)->loss);
  EXPECT_EQ(ReadAll(*first), ReadAll(*second));
}

TEST(TorchReplicaTest, PoolsShareInitialParametersAndDifferInData) {
  const auto first = CreateReplica(TinyOptions()).value();
  LanguageRun options = TinyOptions();
  options.language.pool = 1;
  const auto second = CreateReplica(options).value();
  EXPECT_EQ(ReadAll(*first), ReadAll(*second));
  EXPECT_EQ(first->Evaluate()->loss, second->Evaluate()->loss);
  EXPECT_NE(first->Step(1)->loss, second->Step(1)->loss);
}

TEST(TorchReplicaTest, EvaluationChangesNothing) {
  const auto plain = CreateReplica(TinyOptions()).value();
  const auto evaluated = CreateReplica(TinyOptions()).value();
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(plain->Step(step).ok());
    ASSERT_TRUE(evaluated->Evaluate().ok());
    ASSERT_TRUE(evaluated->Step(step).ok());
  }
  EXPECT_EQ(ReadAll(*plain), ReadAll(*evaluated));
}

TEST(TorchReplicaTest, ResumesAtAnyStepFromWrittenParameters) {
  const auto trained = CreateReplica(TinyOptions()).value();
  for (int step = 1; step <= 40; ++step) ASSERT_TRUE(trained->Step(step).ok());
  const auto fresh = CreateReplica(TinyOptions()).value();
  const auto parameters = ReadAll(*trained);
  std::vector<int> units(parameters.size());
  std::iota(units.begin(), units.end(), 0);
  for (int unit : units) ASSERT_TRUE(fresh->Write(unit, 0, parameters[unit]).ok());
  ASSERT_TRUE(fresh->Publish(units).ok());
  EXPECT_EQ(fresh->Evaluate()->loss, trained->Evaluate()->loss);
  EXPECT_EQ(fresh->Step(41)->loss, trained->Step(41)->loss);
  EXPECT_EQ(fresh->Step(42)->learning_rate, TinyOptions().plan.learning_rate.At(42));
}

TEST(TorchReplicaTest, RefusesWhatItCannotDo) {
  LanguageRun options = TinyOptions();
  options.language.sources = {{.source = {.path = "/nowhere/text"}}};
  absl::Status status = CreateReplica(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/text"));

  options = TinyOptions();
  options.language.shape.context = 1 << 15;
  status = CreateReplica(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too short"));

  options = TinyOptions();
  options.language.shape.heads = 5;
  EXPECT_EQ(CreateReplica(options).status().code(), absl::StatusCode::kInvalidArgument);

  options = TinyOptions();
  options.site.link.ranks_of_node = {1, 1};
  EXPECT_EQ(CreateReplica(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TorchReplicaTest, RanksWhoseDataDiffersDoNotTrain) {
  const std::string shorter = WrittenOnce("torch_replica_shorter", [](std::ostream& file) {
    for (int i = 0; i < 300; ++i) file << "another copy of the text\n";
  });
  std::vector<absl::Status> created(3);
  RunRanks(3, [&](int rank, Communicator& communicator) {
    LanguageRun options = TinyOptions();
    options.language.sources = {{.source = {.path = WriteText()}},
                                {.source = {.path = rank == 2 ? shorter : WriteText()}}};
    options.plan.partition = *PartitionPreset("ddp");
    options.site.link.communicator = &communicator;
    options.site.link.ranks_of_node = {2, 1};
    created[rank] = CreateReplica(options).status();
  });
  for (const absl::Status& status : created) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(" has 7500 tokens on node 1 of this pool (rank 2), and 18400 on node 0"));
  }
  EXPECT_THAT(std::string(created[2].message()), HasSubstr("data: " + shorter));
}

// As shards of one size are.
TEST(TorchReplicaTest, RanksWithAsManyOtherTokensDoNotTrain) {
  std::ifstream text(WriteText());
  const std::string other = WrittenOnce("torch_replica_other", [&text](std::ostream& file) {
    for (char byte = 0; text.get(byte);) file << (byte == 'q' ? 'Q' : byte);
  });
  RunRanks(2, [&](int rank, Communicator& communicator) {
    LanguageRun options = TinyOptions();
    options.language.sources = {{.source = {.path = WriteText()}},
                                {.source = {.path = rank == 1 ? other : WriteText()}}};
    options.site.link.communicator = &communicator;
    options.site.link.ranks_of_node = {1, 1};
    const absl::Status status = CreateReplica(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(" has other tokens on node 1 of this pool (rank 1) than on node 0 (rank 0)"));
  });
}

TEST(TorchReplicaTest, DocumentsAreTheSameForBothWaysOfComputing) {
  LanguageRun options = TinyOptions();
  options.language.sources = {
      {.source = {.kind = SourceKind::kNanoGpt, .path = WriteTokens(), .eos = '\n'}}};
  options.language.separate_documents = true;
  options.plan.accumulation = 2;
  const auto fused = CreateReplica(options).value();
  EXPECT_THAT(fused->Describe(), HasSubstr("attention keeps to documents"));
  options.plan.blocks = Blocks::kAutograd;
  const auto autograd = CreateReplica(options).value();
  options.language.separate_documents = false;
  const auto joined = CreateReplica(options).value();
  EXPECT_NEAR(fused->Evaluate()->loss, autograd->Evaluate()->loss, 1e-4);
  for (int step = 1; step <= 15; ++step) {
    const double loss = autograd->Step(step)->loss;
    EXPECT_NEAR(fused->Step(step)->loss, loss, 1e-3) << step;
    EXPECT_NE(joined->Step(step)->loss, loss) << step;
  }
  const double loss = autograd->Evaluate()->loss;
  EXPECT_NEAR(fused->Evaluate()->loss, loss, 1e-3);
  EXPECT_NE(joined->Evaluate()->loss, loss);

  options.language.separate_documents = true;
  options.language.sources[0].source.eos = 7;
  const absl::Status status = CreateReplica(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 7 (eos) does not occur in it"));
}

TEST(TorchReplicaTest, TrainsInEachPrecisionAndWayOfComputing) {
  for (const ComputePrecision precision :
       {ComputePrecision::kFloat32, ComputePrecision::kBfloat16}) {
    for (const Blocks blocks : {Blocks::kFused, Blocks::kAutograd}) {
      LanguageRun options = TinyOptions();
      options.plan.precision = precision;
      options.plan.blocks = blocks;
      const auto replica = CreateReplica(options).value();
      const double before = replica->Evaluate().value().loss;
      for (int step = 1; step <= 20; ++step) ASSERT_TRUE(replica->Step(step).ok());
      EXPECT_LT(replica->Evaluate().value().loss, before);
    }
  }
}

TEST(TorchReplicaTest, ReportsDivergenceInsteadOfTrainingOn) {
  const auto replica = CreateReplica(TinyOptions()).value();
  const std::vector<float> bad = {std::numeric_limits<float>::quiet_NaN()};
  ASSERT_TRUE(replica->Write(1, 0, bad).ok());
  absl::Status status;
  int64_t skipped = 0;
  for (int64_t step = 1; status.ok() && step <= 20; ++step) {
    const auto stats = replica->Step(step);
    status = stats.status();
    if (stats.ok() && stats->skipped) ++skipped;
  }
  EXPECT_EQ(skipped, 9);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
}

}  // namespace
}  // namespace longhaul
