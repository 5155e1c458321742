// The engine on a queue that runs collectives as late as it may, or as soon.
#include "tests/unit/worker/engine/late_queue.h"

#include <gtest/gtest.h>

#include "ATen/Parallel.h"
#include "common/base/random.h"
#include "tests/testing/emulated_streams.h"
#include "tests/testing/stream_communicator.h"
#include "tests/testing/token_steps.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/collective/parts.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

constexpr int64_t kLateContext = 8, kLateVocab = 11;
constexpr char kOneBit[] = "1-bit Adam", kLocal[] = "0/1 Adam";  // With preset ddp.

OptimizerOptions LateOptimizer(std::string_view preset) {
  if (preset == kOneBit) return OneBitAdamOptions{.freeze_step = 1};
  if (preset == kLocal) {
    return OneBitAdamOptions{.freeze_step = 1, .local_step_scaler = 1, .local_step_clipper = 2};
  }
  return AdamWOptions{};
}

// The losses and norms of rank 0 in four steps of a pool of two nodes of two. Seed 0: the product's
// queue. `device`: the ranks share an emulated one.
std::vector<double> Results(std::string_view preset, uint64_t seed, bool tied,
                            const std::string& unwaited = "", bool device = false) {
  const bool onebit = preset == kOneBit || preset == kLocal;
  std::vector<double> results;
  auto group = device ? MakeStreamCommunicators(4, std::make_shared<EmulatedStreams>(seed)).value()
                      : MakeThreadCommunicators(4);
  RunRanks(std::move(group), [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    LateQueue queue(seed + rank, unwaited);
    Engine::Options options{
        .plan = {.accumulation = 2,
                 .optimizer = LateOptimizer(preset),
                 .clip_norm = 0,
                 .partition = PartitionPreset(onebit ? "ddp" : preset).value()},
        .site = {.link = {.communicator = &communicator, .ranks_of_node = {2, 2}}},
        .model = TransformerLm::Create({.layers = 3,
                                        .dim = 16,
                                        .heads = 2,
                                        .kv_heads = 2,
                                        .ff_dim = 24,
                                        .context = kLateContext,
                                        .vocab = kLateVocab,
                                        .tie_embeddings = tied},
                                       at::kCPU)
                     .value()};
    if (seed > 0) options.queue = &queue;
    const auto engine = Engine::Create(std::move(options));
    if (!engine.ok()) return;
    for (int step = 1; step <= 4; ++step) {
      Random random(10 * step + rank);
      std::vector<int64_t> tokens;
      for (int i = 0; i < 2 * (kLateContext + 1); ++i)
        tokens.push_back(static_cast<int64_t>(random.Below(kLateVocab)));
      // 1-bit Adam takes full steps where the variance is frozen while it is small.
      const double rate = onebit ? 1e-3 : 0.05;
      const auto result = Step(**engine, {2, kLateContext, tokens}, 8 * kLateContext, rate);
      if (!result.ok()) return;
      if (rank == 0) results.insert(results.end(), {result->loss_sum, result->gradient_norm});
    }
  });
  return results;
}

TEST(LateQueueTest, WhenCollectivesRunChangesNoBit) {
  for (const char* preset :
       {"ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3", kOneBit, kLocal}) {
    // Tied weights: the head's backward adds to the gradient of the first unit.
    for (const bool tied : {false, true}) {
      const std::vector<double> expected = Results(preset, 0, tied);
      ASSERT_EQ(expected.size(), 8u) << preset;
      for (uint64_t seed = 100; seed <= 300; seed += 100)
        EXPECT_EQ(Results(preset, seed, tied), expected) << preset << ", seed " << seed;
    }
  }
}

TEST(LateQueueTest, RanksThatShareADeviceTrainToTheSameBits) {
  for (const char* preset :
       {"ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3", kOneBit, kLocal}) {
    const std::vector<double> expected = Results(preset, 0, true);
    ASSERT_EQ(expected.size(), 8u) << preset;
    EXPECT_EQ(Results(preset, 0, true, "", true), expected) << preset << " on the product's queue";
    EXPECT_EQ(Results(preset, 100, true, "", true), expected) << preset;
  }
}

// What this test finds, were a wait forgotten.
TEST(LateQueueTest, AMissingWaitIsFound) {
  struct {
    const char *preset, *unwaited;
  } cases[] = {
      {"zero3", "gathering layer 1 for forward"},   {"zero3", "gathering layer 1 for backward"},
      {"zeropp", "gathering layer 2 for backward"}, {"zero2", "reducing the gradient of layer"},
      {"zero1", "refreshing the weights of"},       {"ddp", "reducing the gradient of"},
      {kOneBit, "averaging the momentum of"},       {kLocal, "averaging the local steps of"}};
  for (const auto& planted : cases) {
    const std::vector<double> expected = Results(planted.preset, 0, false);
    int found = 0;
    for (uint64_t seed = 100; seed <= 500; seed += 100)
      found += Results(planted.preset, seed, false, planted.unwaited) != expected ? 1 : 0;
    EXPECT_GT(found, 0) << planted.preset << ", " << planted.unwaited;
  }
}

}  // namespace
}  // namespace longhaul
