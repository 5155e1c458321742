// What a replica's inner optimizer remembers, taken, written to files, and put back into replicas
// that begin anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "tests/testing/language_run.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

constexpr int kSavedStep = 5, kLastStep = 9;

struct StateCase {
  const char* name;
  const char* preset = "ddp";
  std::vector<int> nodes = {1};
  OptimizerOptions optimizer = AdamWOptions{};
  bool error_feedback = false;
  bool offload = false;
};

LanguageRun StateOptions(const StateCase& of) {
  const std::string path = WrittenOnce("inner_state", [](std::ostream& file) {
    for (int i = 0; i < 300; ++i)
      file << "a state of " << i % 7 << " moments is put back as it was\n";
  });
  PartitionMap map = *PartitionPreset(of.preset);
  map.error_feedback |= of.error_feedback;
  return {.plan = {.batch = 4,
                   .seed = 5,
                   .learning_rate = {.peak = 5e-3, .steps = 100, .warmup_steps = 3},
                   .optimizer = of.optimizer,
                   .partition = map,
                   .offload = {.optimizer = of.offload, .subgroup_elements = of.offload ? 1024 : 0},
                   .eval_batches = 2},
          .site = {.link = {.ranks_of_node = of.nodes}},
          .language = {.shape = {.layers = 2,
                                 .dim = 32,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .ff_dim = 64,
                                 .context = 16,
                                 .vocab = 256},
                       .sources = {{.source = {.path = path}}}}};
}

struct RankSave {
  InnerState state;
  std::vector<std::vector<float>> masters;  // By unit, of the rank's own.
};

int64_t FirstOwned(const Replica& replica, int unit) {
  return replica.OwnedBlocks(unit).first * kBlockElements;
}

void SaveRank(Replica& replica, RankSave& save) {
  ASSERT_TRUE(replica.TakeInnerState(save.state, /*alone=*/false).ok());
  for (int unit = 0; unit < static_cast<int>(replica.layout().units.size()); ++unit) {
    const int64_t elements = replica.layout().units[unit].elements;
    const int64_t first = FirstOwned(replica, unit);
    const int64_t end = std::min(replica.OwnedBlocks(unit).end() * kBlockElements, elements);
    save.masters.emplace_back(std::max<int64_t>(0, end - first));
    if (save.masters.back().empty()) continue;
    ASSERT_TRUE(replica.Read(unit, first, absl::MakeSpan(save.masters.back())).ok());
  }
}

void RestoreRank(Replica& replica, const RankSave& save, bool with_state) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(save.masters.size()); ++unit) {
    units.push_back(unit);
    if (save.masters[unit].empty()) continue;
    ASSERT_TRUE(replica.Write(unit, FirstOwned(replica, unit), save.masters[unit]).ok());
  }
  ASSERT_TRUE(replica.Publish(units).ok());
  if (with_state) {
    ASSERT_TRUE(replica.PutInnerState(save.state).ok());
  }
}

struct StateRun {
  std::vector<RankSave> saves;  // After kSavedStep, by rank.
  std::vector<double> losses;   // Of the steps behind it.
};

// What happens after kSavedStep.
enum class Save { kNo, kYes, kAndPutBack };

// From the first step, or from what was saved.
StateRun TrainStates(const StateCase& of, const StateRun* from, bool with_state = true,
                     Save saving = Save::kYes) {
  int ranks = 0;
  for (const int of_node : of.nodes) ranks += of_node;
  StateRun run{.saves = std::vector<RankSave>(ranks)};
  const LanguageRun options = StateOptions(of);
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    LanguageRun mine = options;
    mine.site.link.communicator = &communicator;
    const auto made = CreateReplica(mine);
    ASSERT_TRUE(made.ok()) << made.status();
    TorchReplica& replica = **made;
    if (from != nullptr) RestoreRank(replica, from->saves[rank], with_state);
    for (int step = from == nullptr ? 1 : kSavedStep + 1; step <= kLastStep; ++step) {
      const auto stats = replica.Step(step);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank == 0 && step > kSavedStep) run.losses.push_back(stats->loss);
      if (from != nullptr || step != kSavedStep || saving == Save::kNo) continue;
      SaveRank(replica, run.saves[rank]);
      if (saving == Save::kAndPutBack) RestoreRank(replica, run.saves[rank], true);
    }
  });
  return run;
}

std::vector<StateCase> Cases() {
  const OneBitAdamOptions warming{.freeze_step = 7}, compressing{.freeze_step = 3};
  const OneBitAdamOptions changing{.freeze_step = 2, .var_update_scaler = 2};
  return {{.name = "AdamW alone"},
          {.name = "AdamW", .nodes = {2}},
          {.name = "AdamW with moments in bf16",
           .nodes = {2},
           .optimizer = AdamWOptions{.moments = MomentPrecision::kBfloat16}},
          {.name = "zero3", .preset = "zero3", .nodes = {3}},
          {.name = "zeropp", .preset = "zeropp", .nodes = {2, 2}},
          {.name = "zeropp that owes", .preset = "zeropp", .nodes = {2, 2}, .error_feedback = true},
          {.name = "Muon", .preset = "zero1", .nodes = {2}, .optimizer = MuonOptions{}},
          {.name = "offloaded", .preset = "zero3", .nodes = {2}, .offload = true},
          {.name = "1-bit Adam alone", .optimizer = compressing},
          {.name = "1-bit Adam in its warm-up", .nodes = {2}, .optimizer = warming},
          {.name = "1-bit Adam", .nodes = {2}, .optimizer = compressing},
          {.name = "0/1 Adam's variance", .nodes = {2}, .optimizer = changing}};
}

// When a pool saves depends on its clock.
TEST(InnerStateTest, ASaveChangesNoBit) {
  for (const StateCase& of : Cases()) {
    SCOPED_TRACE(of.name);
    EXPECT_EQ(TrainStates(of, nullptr).losses, TrainStates(of, nullptr, true, Save::kNo).losses);
  }
}

// What gradients owe is put back on other ranks than those that owed it, so it needs a pool to
// which that happened, too.
TEST(InnerStateTest, APoolThatIsPutBackGoesOnToTheBit) {
  for (const StateCase& of : Cases()) {
    SCOPED_TRACE(of.name);
    const StateRun whole = TrainStates(of, nullptr, /*with_state=*/true,
                                       of.error_feedback ? Save::kAndPutBack : Save::kYes);
    EXPECT_EQ(TrainStates(of, &whole).losses, whole.losses);
    EXPECT_NE(TrainStates(of, &whole, /*with_state=*/false).losses, whole.losses)
        << "the test sees nothing";
  }
}

// What the rank leaves out when it saves alone must be optional, else nobody could use the save.
TEST(InnerStateTest, WhatARankSavesAloneIsEnoughToGoOn) {
  for (const StateCase& of : Cases()) {
    SCOPED_TRACE(of.name);
    int ranks = 0;
    for (const int of_node : of.nodes) ranks += of_node;
    const LanguageRun options = StateOptions(of);
    RunRanks(ranks, [&](int, Communicator& communicator) {
      LanguageRun mine = options;
      mine.site.link.communicator = &communicator;
      const auto made = CreateReplica(mine);
      ASSERT_TRUE(made.ok()) << made.status();
      TorchReplica& replica = **made;
      for (int step = 1; step <= kSavedStep; ++step) ASSERT_TRUE(replica.Step(step).ok());
      InnerState alone;
      ASSERT_TRUE(replica.TakeInnerState(alone, /*alone=*/true).ok());
      for (const InnerStateSlot& slot : replica.InnerStateSlots(alone.phase)) {
        const bool saved =
            std::any_of(alone.parts.begin(), alone.parts.end(),
                        [&](const InnerStatePart& part) { return part.slot == slot; });
        EXPECT_TRUE(saved || IsOptional(slot.kind)) << NameOf(slot.kind);
      }
      ASSERT_TRUE(replica.PutInnerState(alone).ok());
      EXPECT_TRUE(replica.Step(kSavedStep + 1).ok());
    });
  }
}

// The state of all ranks together, by kind and unit.
std::map<std::pair<InnerStateKind, int>, std::map<int64_t, float>> Elements(
    const std::vector<RankSave>& saves) {
  std::map<std::pair<InnerStateKind, int>, std::map<int64_t, float>> elements;
  for (const RankSave& save : saves) {
    for (const InnerStatePart& part : save.state.parts) {
      if (IsOfRank(part.slot.kind)) continue;
      auto& unit = elements[{part.slot.kind, part.slot.unit}];
      for (int64_t i = 0; i < part.slot.count; ++i)
        EXPECT_TRUE(unit.emplace(part.slot.first + i, part.values[i]).second) << "owned twice";
    }
  }
  return elements;
}

TEST(InnerStateTest, GoesToOtherNumbersOfRanksAndPartitions) {
  const StateCase before{.name = "", .preset = "zero3", .nodes = {3}};
  const auto saved = Elements(TrainStates(before, nullptr).saves);
  for (const StateCase& after : {StateCase{.name = "", .preset = "ddp", .nodes = {2}},
                                 {.name = "", .preset = "zeropp", .nodes = {2, 2}},
                                 {.name = "", .preset = "zero1", .nodes = {1}}}) {
    int ranks = 0;
    for (const int of_node : after.nodes) ranks += of_node;
    std::vector<RankSave> taken(ranks);
    const LanguageRun options = StateOptions(after);
    RunRanks(ranks, [&](int rank, Communicator& communicator) {
      LanguageRun mine = options;
      mine.site.link.communicator = &communicator;
      const auto replica = CreateReplica(mine).value();
      InnerState state{.phase = {{"updates", kSavedStep}}};
      for (const InnerStateSlot& slot : replica->InnerStateSlots(state.phase)) {
        InnerStatePart part{.slot = slot};
        for (int64_t i = 0; i < slot.count; ++i)
          part.values.push_back(saved.at({slot.kind, slot.unit}).at(slot.first + i));
        state.parts.push_back(part);
      }
      ASSERT_TRUE(replica->PutInnerState(state).ok());
      ASSERT_TRUE(replica->TakeInnerState(taken[rank].state, /*alone=*/false).ok());
      EXPECT_EQ(PhaseValue(taken[rank].state.phase, "updates"), kSavedStep);
    });
    EXPECT_EQ(Elements(taken), saved) << after.preset;
  }
}

TEST(InnerStateTest, OneBitAdamOfOtherRanksStaysInItsCompressionAndOwesNothing) {
  const OneBitAdamOptions compressing{.freeze_step = 3};
  const StateCase two{.name = "", .nodes = {2}, .optimizer = compressing};
  const auto saved = Elements(TrainStates(two, nullptr).saves);
  const StateCase three{.name = "", .nodes = {3}, .optimizer = compressing};
  const LanguageRun options = StateOptions(three);
  RunRanks(3, [&](int rank, Communicator& communicator) {
    LanguageRun mine = options;
    mine.site.link.communicator = &communicator;
    const auto replica = CreateReplica(mine).value();
    InnerState state{.phase = {{"frozen_at", 3}, {"updates", kSavedStep}}};
    for (const InnerStateSlot& slot : replica->InnerStateSlots(state.phase)) {
      if (IsOptional(slot.kind)) continue;
      InnerStatePart part{.slot = slot};
      for (int64_t i = 0; i < slot.count; ++i)
        part.values.push_back(saved.at({slot.kind, slot.unit}).at(slot.first + i));
      state.parts.push_back(part);
    }
    ASSERT_TRUE(replica->PutInnerState(state).ok());
    const auto stats = replica->Step(kSavedStep + 1);
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(PhaseValue(replica->InnerStatePhase(), "frozen_at"), 3);
    // One bit an element and scales, of gradients that take 32.
    int64_t elements = 0;
    for (const UnitLayout& unit : replica->layout().units) elements += unit.elements;
    const InPoolBytes& received = stats->received.gradient;
    EXPECT_LT(received.pair + received.node + received.pool, elements);
    EXPECT_GT(received.pair + received.node + received.pool, elements / 16);
  });
}

// A few steps behind a restart, from zero moments and from moments of some steps before.
TEST(InnerStateTest, MomentsOfSomeStepsBeforeAreBetterThanNone) {
  LanguageRun options = StateOptions({.name = ""});
  options.site.link.communicator = nullptr;
  const auto trained = CreateReplica(options).value();
  RankSave parameters;
  InnerState before;
  for (int step = 1; step <= 60; ++step) {
    ASSERT_TRUE(trained->Step(step).ok());
    if (step == 45) {
      ASSERT_TRUE(trained->TakeInnerState(before, /*alone=*/false).ok());
    }
  }
  SaveRank(*trained, parameters);
  parameters.state = before;
  double losses[2] = {};
  for (const bool with_state : {false, true}) {
    const auto replica = CreateReplica(options).value();
    RestoreRank(*replica, parameters, with_state);
    for (int step = 61; step <= 66; ++step) losses[with_state] += replica->Step(step)->loss;
  }
  EXPECT_LT(losses[1], losses[0]);
}

}  // namespace
}  // namespace longhaul
