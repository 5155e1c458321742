// A replica that trains on conversations: the loss, in steps and evaluations, is the mean over what
// counts in the pool, however it is spread over ranks and micro-batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/testing/fake_chat_renderer.h"
#include "tests/testing/language_run.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kChatSteps = 5;

class ChatTrainingTest : public testing::Test {
 protected:
  // Of conversations some count one target, others nearly all; two are longer than a row.
  ChatTrainingTest() {
    std::ofstream file(dir_.Join("chat.jsonl"));
    for (int i = 0; i < 60; ++i) {
      std::string line = i % 3 == 0 ? "aX" : i % 3 == 1 ? "abcdefghijK" : "aBCDEFGHIJKLM";
      if (i % 29 == 0) line += "NOPQRSTUVWXYZABCDEFGH";
      file << line << "\n";
    }
    for (int i = 0; i < 8; ++i) file << (i % 2 == 0 ? "heldOUT\n" : "heldoutX\n");
  }

  struct Run {
    int ranks = 1, accumulation = 1;
    const char* preset = "ddp";
    Blocks blocks = Blocks::kAuto;
    bool pack = false;
    int beside = 0;
  };
  struct Result {
    std::vector<double> losses;
    std::vector<int64_t> tokens, targets;
    EvalStats evaluated;
    std::vector<std::string> descriptions;
  };

  Result Train(const Run& run) {
    Result result;
    RunRanks(run.ranks, [&](int rank, Communicator& communicator) {
      LanguageRun options{
          .plan = {.batch = 6,
                   .accumulation = run.accumulation,
                   .seed = 5,
                   .learning_rate = {.peak = 5e-3, .steps = 100},
                   .optimizer = AdamWOptions{},
                   .partition = *PartitionPreset(run.preset),
                   .blocks = run.blocks,
                   .eval_batches = 2,
                   .evaluation_beside = {.evaluations = run.beside, .host_bytes = 1 << 30}},
          .language = {.shape = {.layers = 2,
                                 .dim = 32,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .ff_dim = 64,
                                 .context = 15,
                                 .vocab = 128},
                       .sources = {{.source = {.kind = SourceKind::kChat,
                                               .path = dir_.Join("chat.jsonl"),
                                               .tokenizer = renderer_.model(),
                                               .pack = run.pack}}},
                       .token_work = {.folder = dir_.Join("work")},
                       .separate_documents = run.pack,
                       .eval_fraction = 0.1}};
      if (run.ranks > 1) options.site.link.communicator = &communicator;
      const auto replica = CreateReplica(options);
      ASSERT_TRUE(replica.ok()) << replica.status();
      for (int step = 1; step <= kChatSteps; ++step) {
        const auto stats = (*replica)->Step(step);
        ASSERT_TRUE(stats.ok()) << stats.status();
        if (rank != 0) continue;
        result.losses.push_back(stats->loss);
        result.tokens.push_back(stats->tokens);
        result.targets.push_back(stats->target_tokens);
      }
      const auto evaluated = (*replica)->Evaluate();
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      if (run.beside > 0) {
        ASSERT_TRUE((*replica)->BeginEvaluation().ok());
        const auto beside = (*replica)->TakeEvaluation(/*wait=*/true);
        ASSERT_TRUE(beside.ok()) << beside.status();
        EXPECT_EQ((*beside)->loss, evaluated->loss);
        EXPECT_EQ((*beside)->tokens, evaluated->tokens);
      }
      if (rank == 0) result.evaluated = *evaluated;
      if (rank == 0) result.descriptions.push_back((*replica)->Describe());
    });
    return result;
  }

  TempDir dir_;
  const FakeChatRenderer renderer_;
};

TEST_F(ChatTrainingTest, TheLossIsTheMeanOfWhatCountsInThePool) {
  const Result one = Train({.blocks = Blocks::kAutograd});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kChatSteps));
  EXPECT_THAT(one.descriptions, testing::Each(testing::HasSubstr("what the assistant wrote")));
  EXPECT_THAT(one.tokens, testing::Each(6 * 15));
  for (const int64_t targets : one.targets) {
    EXPECT_GT(targets, 5);
    EXPECT_LT(targets, 6 * 15);
  }
  // Two batches of six examples, of seven rows.
  EXPECT_GT(one.evaluated.tokens, 12);
  EXPECT_LT(one.evaluated.tokens, 12 * 15);
  EXPECT_NEAR(one.losses[0], std::log(128), 0.3);
  for (const Run& run : {Run{.beside = 1}, Run{.accumulation = 3}, Run{.ranks = 2},
                         Run{.ranks = 3, .accumulation = 2, .preset = "zero3", .beside = 2},
                         Run{.ranks = 8, .preset = "zero2"}}) {
    SCOPED_TRACE(testing::Message() << run.ranks << " ranks, accumulation " << run.accumulation);
    const Result other = Train(run);
    EXPECT_EQ(other.targets, one.targets);
    EXPECT_EQ(other.evaluated.tokens, one.evaluated.tokens);
    EXPECT_NEAR(other.evaluated.loss, one.evaluated.loss, 1e-4 * one.evaluated.loss);
    ASSERT_EQ(other.losses.size(), one.losses.size());
    for (size_t step = 0; step < one.losses.size(); ++step)
      EXPECT_NEAR(other.losses[step], one.losses[step], 1e-4 * one.losses[step]);
  }
}

TEST_F(ChatTrainingTest, PackedRowsTrain) {
  const Result one = Train({.pack = true}),
               two = Train({.ranks = 2, .preset = "zero1", .pack = true});
  EXPECT_EQ(one.targets, two.targets);
  for (size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(two.losses[step], one.losses[step], 1e-4 * one.losses[step]);
  // More of a row counts than of rows with a conversation each.
  const Result apart = Train({});
  EXPECT_GT(std::accumulate(one.targets.begin(), one.targets.end(), int64_t{0}),
            std::accumulate(apart.targets.begin(), apart.targets.end(), int64_t{0}));
}

}  // namespace
}  // namespace longhaul
