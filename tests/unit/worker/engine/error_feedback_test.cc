// What quantized gradients owe, saved and restored: between two steps it is a value of each element
// that does not depend on how many ranks there are.
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/share.h"
#include "tests/unit/worker/engine/engine_training.h"

namespace longhaul {
namespace {

PartitionMap Owing(int bits, Level weights) {
  return {.weights = {weights},
          .gradients = {Level::kPool, bits},
          .error_feedback = true,
          .optimizer = Level::kPool};
}

struct OwingRun {
  std::vector<double> losses;  // Of steps 4 to 6.
  Saved saved;                 // After step 3.
};

// What happens after step 3.
enum class AtStep3 { kNothing, kSave, kSaveAndPutBack };

// Steps 1 to 6; `from`: what was saved instead of steps 1 to 3.
OwingRun TrainOwing(const std::vector<int>& nodes, const PartitionMap& map,
                    const Saved* from = nullptr, int last = 6, AtStep3 then = AtStep3::kSave) {
  OwingRun run;
  std::mutex mutex;
  const int ranks = std::accumulate(nodes.begin(), nodes.end(), 0);
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(), map, &communicator);
    options.site.link.ranks_of_node = nodes;
    options.plan.accumulation = 2;
    const auto engine = Engine::Create(std::move(options)).value();
    const Share share = ShareOf(8, rank, ranks);
    if (from != nullptr) Restore(*from, *engine);
    for (int step = from == nullptr ? 1 : 4; step <= last; ++step) {
      if (step == 4 && from == nullptr && then != AtStep3::kNothing) {
        Save(*engine, mutex, run.saved);
        if (then == AtStep3::kSaveAndPutBack) {
          ASSERT_TRUE(communicator.Barrier({.timeout = absl::Minutes(1)}).ok());  // All have saved.
          Restore(run.saved, *engine);
        }
      }
      const std::vector<int64_t> tokens = Tokens(step, share);
      const auto stats = Step(*engine, {share.count, kContext, tokens}, 8 * kContext, 0.01);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank == 0 && step >= 4) run.losses.push_back(stats->loss_sum);
    }
    if (from != nullptr && last < 4) Save(*engine, mutex, run.saved);
  });
  return run;
}

bool OwesSomething(const Saved& saved) {
  for (const std::vector<float>& unit : saved.owed) {
    for (const float owed : unit) {
      if (owed != 0) return true;
    }
  }
  return false;
}

OwingRun TrainPutBack(const std::vector<int>& nodes, const PartitionMap& map) {
  return TrainOwing(nodes, map, nullptr, 6, AtStep3::kSaveAndPutBack);
}

TEST(ErrorFeedbackTest, ASaveChangesNoBit) {
  for (const std::vector<int>& nodes : {std::vector<int>{2}, {3}, {2, 2}}) {
    const PartitionMap map = Owing(4, Level::kPool);
    const OwingRun saved = TrainOwing(nodes, map);
    EXPECT_EQ(saved.losses, TrainOwing(nodes, map, nullptr, 6, AtStep3::kNothing).losses);
    // Sums in another order.
    const OwingRun back = TrainPutBack(nodes, map);
    ASSERT_EQ(back.losses.size(), saved.losses.size());
    for (size_t i = 0; i < back.losses.size(); ++i)
      EXPECT_NEAR(back.losses[i], saved.losses[i], 1e-3 * saved.losses[i]);
  }
}

// The error feedback is put back on other ranks than those that owed it, so the saved pool is put
// back, too.
TEST(ErrorFeedbackTest, ARestoredPoolTrainsToTheBitsOfTheSavedOne) {
  for (const int bits : {4, 6}) {
    for (const std::vector<int>& nodes : {std::vector<int>{2}, {3}, {1, 1}, {2, 1}, {2, 2}}) {
      const PartitionMap map = Owing(bits, Level::kPool);
      const OwingRun whole = TrainPutBack(nodes, map);
      ASSERT_TRUE(OwesSomething(whole.saved));
      EXPECT_EQ(TrainOwing(nodes, map, &whole.saved).losses, whole.losses)
          << bits << " bits, " << nodes.size() << " nodes of " << nodes[0];
      Saved forgetful = whole.saved;
      forgetful.owed.assign(forgetful.owed.size(), {});
      for (size_t unit = 0; unit < forgetful.owed.size(); ++unit)
        forgetful.owed[unit].resize(whole.saved.owed[unit].size());
      EXPECT_NE(TrainOwing(nodes, map, &forgetful).losses, whole.losses) << "the test sees nothing";
    }
  }
}

TEST(ErrorFeedbackTest, AnAverageIsRestoredAndReset) {
  PartitionMap map = Owing(4, Level::kPool);
  map.error_beta = 0.8;
  const OwingRun whole = TrainPutBack({2, 2}, map);
  EXPECT_EQ(TrainOwing({2, 2}, map, &whole.saved).losses, whole.losses);
  EXPECT_NE(TrainOwing({2, 2}, Owing(4, Level::kPool)).losses, whole.losses);
  // Behind step 3 nothing is owed, so what was saved makes no difference.
  map.error_reset_steps = 3;
  const OwingRun reset = TrainPutBack({2, 2}, map);
  ASSERT_TRUE(OwesSomething(reset.saved));
  Saved forgetful = reset.saved;
  for (std::vector<float>& unit : forgetful.owed) std::fill(unit.begin(), unit.end(), 0.0f);
  EXPECT_EQ(TrainOwing({2, 2}, map, &forgetful).losses, reset.losses);
}

TEST(ErrorFeedbackTest, GoesToOtherRankCountsAndPresets) {
  const Saved saved = TrainOwing({2, 2}, Owing(4, Level::kPool)).saved;
  PartitionMap frontier3 = PartitionPreset("frontier3").value();
  frontier3.error_feedback = true;
  for (const auto& [nodes, map] :
       std::vector<std::pair<std::vector<int>, PartitionMap>>{{{3}, Owing(4, Level::kPool)},
                                                              {{1, 1}, Owing(8, Level::kRank)},
                                                              {{2, 1}, Owing(4, Level::kPool)},
                                                              {{4, 4}, Owing(4, Level::kNode)},
                                                              {{4, 4}, frontier3}}) {
    EXPECT_EQ(TrainOwing(nodes, map, &saved, 3).saved.owed, saved.owed) << nodes.size();
  }
}

// What a step owes that nobody applied would come back in the next one: values that are not finite
// for ever, and the large ones beside them as a gradient.
TEST(ErrorFeedbackTest, AStepThatIsSkippedLeavesNothingOfItself) {
  for (const int bits : {4, 8}) {
    for (const float value : {std::numeric_limits<float>::infinity(), 1e38f}) {
      SCOPED_TRACE(absl::StrCat(bits, " bits, ", value));
      RunRanks(2, [&](int rank, Communicator& communicator) {
        Engine::Options options = MakeOptions(Decoder(), Owing(bits, Level::kPool), &communicator);
        options.plan.clip_norm = 0;
        const auto engine = Engine::Create(std::move(options)).value();
        const int head = static_cast<int>(engine->layout().units.size()) - 1;
        const ElementRange owned = engine->plan().owned(head);
        const std::vector<int64_t> tokens = Tokens(1, {rank, 1});
        // No step changes the parameters.
        const auto step = [&] { return Step(*engine, {1, kContext, tokens}, 2 * kContext, 0); };
        const double usual = step()->gradient_norm;
        std::vector<float> good(owned.count);
        ASSERT_TRUE(engine->Read(head, owned.first, absl::MakeSpan(good)).ok());
        std::vector<float> bad = good;
        if (rank == 1) bad.back() = value;
        const std::vector<float> steps[] = {bad, good};
        for (const std::vector<float>& values : steps) {
          ASSERT_TRUE(engine->Write(head, owned.first, values).ok());
          ASSERT_TRUE(engine->Publish({head}).ok());
          const auto stats = step();
          ASSERT_TRUE(stats.ok()) << stats.status();
          EXPECT_EQ(stats->skipped, &values == &steps[0]);
          if (!stats->skipped) {
            EXPECT_NEAR(stats->gradient_norm, usual, 0.2 * usual);
          }
        }
      });
    }
  }
}

TEST(ErrorFeedbackTest, IsReadAfterItWasCollectedAlone) {
  RunRanks(2, [](int, Communicator& communicator) {
    const auto engine =
        Engine::Create(MakeOptions(Decoder(), Owing(4, Level::kPool), &communicator)).value();
    std::vector<float> values(1);
    const auto read = [&] {
      return engine->ReadState(OptimizerState::kGradientError, 0, engine->plan().owned(0).first,
                               absl::MakeSpan(values));
    };
    EXPECT_TRUE(absl::IsFailedPrecondition(read())) << read();
    EXPECT_TRUE(engine->CollectErrorFeedback().ok());
    EXPECT_TRUE(read().ok());
  });
  // Nothing is owed where nothing is quantized.
  const auto alone = Engine::Create(MakeOptions(Decoder(), "zeropp", nullptr)).value();
  std::vector<float> values(3, 1);
  EXPECT_TRUE(alone->ReadState(OptimizerState::kGradientError, 0, 0, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values, std::vector<float>(3));
}

}  // namespace
}  // namespace longhaul
