#include "worker/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "ATen/Parallel.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/data/windows.h"
#include "worker/model/bigram_model.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

constexpr int64_t kContext = 8, kVocab = 11;
using Parameters = std::vector<std::vector<float>>;  // By unit.

std::unique_ptr<Model> Decoder(bool tied = false) {
  return TransformerLm::Create({.layers = 2,
                                .dim = 16,
                                .heads = 2,
                                .kv_heads = 1,
                                .ff_dim = 24,
                                .context = kContext,
                                .vocab = kVocab,
                                .tie_embeddings = tied},
                               at::kCPU)
      .value();
}

Engine::Options MakeOptions(std::unique_ptr<Model> model, std::string_view preset,
                            Communicator* communicator) {
  return {.model = std::move(model),
          .link = {.communicator = communicator},
          .partition = PartitionPreset(preset).value(),
          .adamw = {.weight_decay = 0.1},
          .clip_norm = 0.5,
          .seed = 4};
}

// The tokens of the sequences of `share` in the batch of a step.
std::vector<int64_t> Tokens(int step, const Share& share) {
  std::vector<int64_t> tokens;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(100 * step + s);
    for (int i = 0; i <= kContext; ++i)
      tokens.push_back(static_cast<int64_t>(random.Below(kVocab)));
  }
  return tokens;
}

Parameters ReadAll(const Engine& engine) {
  Parameters units;
  for (size_t unit = 0; unit < engine.layout().units.size(); ++unit) {
    units.emplace_back(engine.layout().units[unit].elements);
    EXPECT_TRUE(engine.Read(unit, 0, absl::MakeSpan(units.back())).ok());
  }
  return units;
}

struct Trained {
  std::vector<double> losses, norms;   // By step.
  std::vector<Parameters> parameters;  // By rank.
};

Trained Train(int ranks, std::string_view preset, int64_t batch, bool tied = false) {
  Trained result;
  result.parameters.resize(ranks);
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto engine = Engine::Create(MakeOptions(Decoder(tied), preset, &communicator)).value();
    const Share share = ShareOf(batch, rank, ranks);
    for (int step = 1; step <= 4; ++step) {
      const std::vector<int64_t> tokens = Tokens(step, share);
      const auto stats = engine->Step({share.count, kContext, tokens}, batch * kContext, 0.01);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank != 0) continue;
      result.losses.push_back(stats->loss_sum);
      result.norms.push_back(stats->gradient_norm);
    }
    result.parameters[rank] = ReadAll(*engine);
  });
  return result;
}

TEST(EngineTest, PresetsAreEqualBitForBit) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Trained ddp = Train(ranks, "ddp", 5);
    for (const char* preset : {"ddp", "zero1", "zero2"}) {
      SCOPED_TRACE(absl::StrCat(preset, " on ", ranks, " ranks"));
      const Trained other = Train(ranks, preset, 5);
      EXPECT_EQ(ddp.losses, other.losses);
      EXPECT_EQ(ddp.norms, other.norms);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(other.parameters[rank], ddp.parameters[0]) << "rank " << rank;
    }
  }
}

TEST(EngineTest, PresetsAreEqualWithTiedEmbeddings) {
  const Trained ddp = Train(3, "ddp", 3, /*tied=*/true);
  for (const char* preset : {"zero1", "zero2"})
    EXPECT_EQ(ddp.parameters[0], Train(3, preset, 3, /*tied=*/true).parameters[2]) << preset;
}

// Shares differ in size, and at 4 ranks two of them are empty.
TEST(EngineTest, RanksTakeTheSameStepAsOneRank) {
  const Trained one = Train(1, "ddp", 2);
  for (int ranks : {2, 4}) {
    const Trained many = Train(ranks, "zero1", 2);
    for (size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(many.losses[step], one.losses[step], 1e-4 * one.losses[step]);
      EXPECT_NEAR(many.norms[step], one.norms[step], 1e-4 * one.norms[step]);
    }
  }
}

TEST(EngineTest, SameInputsGiveTheSameBits) {
  EXPECT_EQ(Train(2, "ddp", 3).parameters, Train(2, "ddp", 3).parameters);
}

TEST(EngineTest, LossSumCoversAllRanksAndChangesNothing) {
  const std::vector<int64_t> all = Tokens(1, {0, 3});
  const auto alone = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
  const Parameters before = ReadAll(*alone);
  const double expected = alone->LossSum({3, kContext, all}).value();
  EXPECT_EQ(ReadAll(*alone), before);
  EXPECT_NEAR(expected, 3 * kContext * std::log(kVocab), 1);
  RunRanks(4, [&](int rank, Communicator& communicator) {
    const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", &communicator)).value();
    const Share share = ShareOf(3, rank, 4);
    EXPECT_NEAR(engine->LossSum({share.count, kContext, Tokens(1, share)}).value(), expected, 1e-4);
  });
}

TEST(EngineTest, PublishSpreadsWhatOwnersWrote) {
  RunRanks(2, [](int rank, Communicator& communicator) {
    const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", &communicator)).value();
    const ShardPlan plan(engine->layout(), {}, rank, 2);
    const std::vector<float> values(plan.owned(1).count, static_cast<float>(rank + 1));
    ASSERT_TRUE(engine->Write(1, plan.owned(1).first, values).ok());
    ASSERT_TRUE(engine->Publish({1}).ok());
    const Parameters parameters = ReadAll(*engine);
    EXPECT_EQ(parameters[1].front(), 1);
    EXPECT_EQ(parameters[1].back(), 2);
  });
}

TEST(EngineTest, TrainsAnyModelOfTheSeam) {
  const auto engine =
      Engine::Create(MakeOptions(std::make_unique<BigramModel>(kVocab), "ddp", nullptr)).value();
  const std::vector<int64_t> tokens = Tokens(1, {0, 4});
  const double first = engine->LossSum({4, kContext, tokens}).value();
  EXPECT_NEAR(first, 4 * kContext * std::log(kVocab), 1e-4);
  for (int step = 0; step < 200; ++step)
    ASSERT_TRUE(engine->Step({4, kContext, tokens}, 4 * kContext, 0.05).ok());
  EXPECT_LT(engine->LossSum({4, kContext, tokens}).value(), 0.6 * first);
}

TEST(EngineTest, ComputesInBfloat16OverFloat32Parameters) {
  Engine::Options options = MakeOptions(Decoder(), "ddp", nullptr);
  options.compute = at::kBFloat16;
  const auto narrow = Engine::Create(std::move(options)).value();
  const auto wide = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
  for (int step = 1; step <= 10; ++step) {
    const std::vector<int64_t> tokens = Tokens(1, {0, 4});
    const double expected = wide->Step({4, kContext, tokens}, 4 * kContext, 0.01)->loss_sum;
    EXPECT_NEAR(narrow->Step({4, kContext, tokens}, 4 * kContext, 0.01)->loss_sum, expected,
                0.02 * expected);
  }
}

TEST(EngineTest, ALostPeerEndsTheStep) {
  RunRanks(2, [](int rank, Communicator& communicator) {
    const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", &communicator)).value();
    if (rank == 1) return communicator.Abort("rank 1 stops");
    const std::vector<int64_t> tokens = Tokens(1, {0, 1});
    EXPECT_EQ(engine->Step({1, kContext, tokens}, 2 * kContext, 0.01).status().code(),
              absl::StatusCode::kUnavailable);
  });
}

TEST(EngineTest, RefusesToUpdateFromAGradientThatIsNotFinite) {
  const auto engine = Engine::Create(MakeOptions(Decoder(), "ddp", nullptr)).value();
  ASSERT_TRUE(engine->Write(1, 0, {std::numeric_limits<float>::infinity()}).ok());
  const Parameters before = ReadAll(*engine);
  const std::vector<int64_t> tokens = Tokens(1, {0, 1});
  EXPECT_EQ(engine->Step({1, kContext, tokens}, kContext, 0.01).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(ReadAll(*engine), before);
}

}  // namespace
}  // namespace longhaul
