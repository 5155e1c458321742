// A node's secondary copy of the weights (hpZ of ZeRO++) in a pool that does more than train: it
// evaluates, merges, and takes up what was saved. Backward must compute with what forward had.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/share.h"
#include "tests/unit/worker/engine/engine_training.h"

namespace longhaul {
namespace {

constexpr int kSteps = 5;

const PartitionMap kExactCopy{.weights = {Level::kPool},
                              .secondary = Spread{Level::kNode},
                              .gradients = {Level::kPool},
                              .optimizer = Level::kPool};

struct CopyRun {
  PartitionMap map;
  std::vector<int> nodes = {2, 2};
  at::ScalarType compute = at::kFloat;
  OffloadPlan offload;
  // Called on every rank after each step but the last.
  std::function<void(Engine&, int step)> between = [](Engine&, int) {};
};

// The parameters at the end.
Parameters TrainCopy(const CopyRun& run) {
  Parameters parameters;
  std::mutex mutex;
  const int ranks = std::accumulate(run.nodes.begin(), run.nodes.end(), 0);
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(), run.map, &communicator);
    options.site.link.ranks_of_node = run.nodes;
    options.plan.precision = PrecisionOf(run.compute);
    options.plan.offload = run.offload;
    options.plan.accumulation = 2;
    const auto engine = Engine::Create(std::move(options)).value();
    const Share share = ShareOf(2 * ranks, rank, ranks);
    for (int step = 1; step <= kSteps; ++step) {
      const std::vector<int64_t> tokens = Tokens(step, share);
      const auto stats = Step(*engine, {share.count, kContext, tokens}, 2 * ranks * kContext, 0.01);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (step < kSteps) run.between(*engine, step);
    }
    const std::lock_guard lock(mutex);
    if (parameters.empty()) parameters = Zeros(*engine);
    ReadOwned(*engine, parameters);
  });
  return parameters;
}

void Evaluate(Engine& engine, int step) {
  const std::vector<int64_t> tokens = Tokens(100 + step, {0, 1});
  ASSERT_TRUE(LossSum(engine, {1, kContext, tokens}).ok());
  ASSERT_TRUE(engine.CopyWeights().ok());
}

// Owners write factor times their values, as a merge does, and publish them.
void Scale(Engine& engine, float factor) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(engine.layout().units.size()); ++unit) {
    const ElementRange& owned = engine.plan().owned(unit);
    std::vector<float> values(owned.count);
    ASSERT_TRUE(engine.Read(unit, owned.first, absl::MakeSpan(values)).ok());
    for (float& value : values) value *= factor;
    ASSERT_TRUE(engine.Write(unit, owned.first, values).ok());
    units.push_back(unit);
  }
  ASSERT_TRUE(engine.Publish(units).ok());
}

std::vector<std::pair<std::string, CopyRun>> CopyRuns() {
  std::vector<std::pair<std::string, CopyRun>> runs;
  for (const auto compute : {at::kFloat, at::kBFloat16}) {
    for (const bool offloaded : {false, true}) {
      const OffloadPlan offload =
          offloaded ? Offload({2, 0.2}, true, runs.size() + 1) : OffloadPlan();
      const std::string kind = absl::StrCat(compute == at::kFloat ? " in float" : " in bf16",
                                            offloaded ? ", offloaded" : "");
      const auto add = [&](const std::string& name, const PartitionMap& map,
                           const std::vector<int>& nodes) {
        runs.push_back({name + kind, {map, nodes, compute, offload}});
      };
      add("exact", kExactCopy, {2, 2});
      add("zeropp", *PartitionPreset("zeropp"), {2, 2});
      add("frontier3", *PartitionPreset("frontier3"), {4, 4});
    }
  }
  return runs;
}

TEST(SecondaryCopyTest, EvaluationsChangeNoBit) {
  for (auto& [name, run] : CopyRuns()) {
    const Parameters expected = TrainCopy(run);
    run.between = Evaluate;
    EXPECT_TRUE(TrainCopy(run) == expected) << name;
  }
}

TEST(SecondaryCopyTest, StateThatIsPutBackChangesNoBit) {
  for (auto& [name, run] : CopyRuns()) {
    const Parameters expected = TrainCopy(run);
    std::map<int, Saved> saved;
    std::mutex mutex;
    run.between = [&](Engine& engine, int step) {
      Saved* of_step;
      {
        const std::lock_guard lock(mutex);
        of_step = &saved[step];
      }
      Save(engine, mutex, *of_step);
      // Every rank has saved its part.
      ASSERT_TRUE(engine.GatherNumbers({step}).ok());
      Scale(engine, 0);
      Restore(*of_step, engine);
      Evaluate(engine, step);
    };
    EXPECT_TRUE(TrainCopy(run) == expected) << name;
  }
}

// Written in between, with an evaluation before and after: as without a copy.
TEST(SecondaryCopyTest, BackwardComputesWithWhatWasWritten) {
  const auto write = [](Engine& engine, int step) {
    Evaluate(engine, step);
    Scale(engine, step % 2 == 0 ? 0.5f : -1.25f);
    if (step == 3) Evaluate(engine, step);
  };
  const Parameters expected = TrainCopy({.map = *PartitionPreset("zero3"), .between = write});
  for (const bool offloaded : {false, true}) {
    EXPECT_TRUE(TrainCopy({.map = kExactCopy,
                           .offload = offloaded ? Offload({2, 0.2}, true) : OffloadPlan(),
                           .between = write}) == expected)
        << offloaded;
  }
  EXPECT_FALSE(TrainCopy({.map = kExactCopy}) == expected) << "the writes had no effect";
}

}  // namespace
}  // namespace longhaul
