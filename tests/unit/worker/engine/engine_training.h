// Small models that engines of a pool train, for their tests: from fixed tokens, on ranks that are
// threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "common/base/random.h"
#include "common/base/share.h"
#include "tests/testing/token_steps.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {

inline constexpr int64_t kContext = 8, kVocab = 11;
using Parameters = std::vector<std::vector<float>>;  // By unit.

inline std::unique_ptr<Model> Decoder(bool tied = false) {
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

inline Engine::Options MakeOptions(std::unique_ptr<Model> model, const PartitionMap& partition,
                                   Communicator* communicator) {
  return {.plan = {.seed = 4,
                   .optimizer = AdamWOptions{.weight_decay = 0.1},
                   .clip_norm = 0.5,
                   .partition = partition},
          .site = {.link = {.communicator = communicator}},
          .model = std::move(model)};
}
inline Engine::Options MakeOptions(std::unique_ptr<Model> model, std::string_view preset,
                                   Communicator* communicator) {
  return MakeOptions(std::move(model), PartitionPreset(preset).value(), communicator);
}

// The tokens of the sequences of `share` in the batch of a step.
inline std::vector<int64_t> Tokens(int step, const Share& share) {
  std::vector<int64_t> tokens;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(100 * step + s);
    for (int i = 0; i <= kContext; ++i)
      tokens.push_back(static_cast<int64_t>(random.Below(kVocab)));
  }
  return tokens;
}

inline Parameters Zeros(const Engine& engine) {
  Parameters units;
  for (const UnitLayout& unit : engine.layout().units) units.emplace_back(unit.elements);
  return units;
}

// The loss mask of the same sequences: of some no target counts, of others many do.
inline std::vector<int64_t> LossMask(int step, const Share& share) {
  std::vector<int64_t> mask;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(9000 * step + s);
    const uint64_t of_eight = (s + step) % 3 * 3;
    for (int64_t i = 0; i < kContext; ++i) mask.push_back(random.Below(8) < of_eight ? 1 : 0);
  }
  return mask;
}
// How many targets it counts in the pool's batch.
inline int64_t TargetsOf(int step, int64_t batch) {
  const std::vector<int64_t> mask = LossMask(step, {0, batch});
  return std::accumulate(mask.begin(), mask.end(), int64_t{0});
}

// What this rank owns, into its place.
inline void ReadOwned(const Engine& engine, Parameters& units) {
  for (int unit = 0; unit < static_cast<int>(units.size()); ++unit) {
    const ElementRange& owned = engine.plan().owned(unit);
    EXPECT_TRUE(
        engine
            .Read(unit, owned.first, absl::MakeSpan(units[unit]).subspan(owned.first, owned.count))
            .ok());
  }
}

inline Parameters ReadAll(const Engine& engine) {
  Parameters units = Zeros(engine);
  ReadOwned(engine, units);
  return units;
}

// On a device that is as late and out of order as its tokens allow.
inline OffloadPlan Offload(UpdateScheduleOptions schedule, bool parameters, uint64_t seed = 1) {
  return {.optimizer = true,
          .parameters = parameters,
          .schedule = schedule,
          .subgroup_elements = 128,
          .emulation = {.mode = EmulatedMovement::Mode::kLate, .seed = seed}};
}

struct TrainingRun {
  std::vector<int> nodes = {1};  // Ranks of each.
  PartitionMap partition;
  int64_t batch = 1;
  bool tied = false;
  int accumulation = 1;
  bool recompute = false;
  int steps = 4;
  at::ScalarType compute = at::kFloat;
  const SegmentKernels* kernels = nullptr;
  OptimizerOptions optimizer = AdamWOptions{.weight_decay = 0.1};
  OffloadPlan offload;
  bool masked = false;
  Blocks blocks = Blocks::kAuto;
};

struct Trained {
  std::vector<double> losses, norms;  // By step.
  Parameters parameters;
  StepResult last;
};

inline Trained Train(const TrainingRun& run) {
  Trained result;
  std::mutex mutex;
  int ranks = 0;
  for (const int of_node : run.nodes) ranks += of_node;
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(run.tied), run.partition, &communicator);
    options.site.link.ranks_of_node = run.nodes;
    options.plan.accumulation = run.accumulation;
    options.plan.recompute = run.recompute;
    options.plan.precision = PrecisionOf(run.compute);
    options.kernels = run.kernels;
    options.plan.optimizer = run.optimizer;
    options.plan.offload = run.offload;
    options.plan.blocks = run.blocks;
    auto made = Engine::Create(std::move(options));
    ASSERT_TRUE(made.ok()) << made.status();
    Engine& engine = **made;
    const Share share = ShareOf(run.batch, rank, ranks);
    for (int step = 1; step <= run.steps; ++step) {
      const std::vector<int64_t> tokens = Tokens(step, share);
      TokenBatch batch{share.count, kContext, tokens};
      const std::vector<int64_t> mask = LossMask(step, share);
      if (run.masked) batch.loss_mask = mask;
      const auto stats =
          Step(engine, batch, run.masked ? TargetsOf(step, run.batch) : run.batch * kContext, 0.01);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank != 0) continue;
      result.losses.push_back(stats->loss_sum);
      result.norms.push_back(stats->gradient_norm);
      result.last = *stats;
    }
    const std::lock_guard lock(mutex);
    if (result.parameters.empty()) result.parameters = Zeros(engine);
    ReadOwned(engine, result.parameters);
  });
  return result;
}
inline Trained Train(std::vector<int> nodes, std::string_view preset, int64_t batch) {
  return Train(
      {.nodes = std::move(nodes), .partition = PartitionPreset(preset).value(), .batch = batch});
}

// What a pool knows between two steps, by unit.
struct Saved {
  Parameters masters, first, second, owed;
  int64_t updates = 0;
};

// Collective.
inline void Save(Engine& engine, std::mutex& mutex, Saved& saved) {
  EXPECT_TRUE(engine.CollectErrorFeedback().ok());
  const std::lock_guard lock(mutex);
  if (saved.masters.empty())
    saved.masters = saved.first = saved.second = saved.owed = Zeros(engine);
  ReadOwned(engine, saved.masters);
  for (int unit = 0; unit < static_cast<int>(saved.first.size()); ++unit) {
    const ElementRange& owned = engine.plan().owned(unit);
    const auto part = [&](Parameters& units) {
      return absl::MakeSpan(units[unit]).subspan(owned.first, owned.count);
    };
    EXPECT_TRUE(
        engine.ReadState(OptimizerState::kMoment, unit, owned.first, part(saved.first)).ok());
    EXPECT_TRUE(
        engine.ReadState(OptimizerState::kVariance, unit, owned.first, part(saved.second)).ok());
    EXPECT_TRUE(
        engine.ReadState(OptimizerState::kGradientError, unit, owned.first, part(saved.owed)).ok());
  }
  saved.updates = engine.updates();
}

inline void Restore(const Saved& saved, Engine& engine) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(saved.masters.size()); ++unit) {
    const ElementRange& owned = engine.plan().owned(unit);
    const auto part = [&](const Parameters& all) {
      return absl::MakeConstSpan(all[unit]).subspan(owned.first, owned.count);
    };
    ASSERT_TRUE(engine.Write(unit, owned.first, part(saved.masters)).ok());
    ASSERT_TRUE(
        engine.WriteState(OptimizerState::kMoment, unit, owned.first, part(saved.first)).ok());
    ASSERT_TRUE(
        engine.WriteState(OptimizerState::kVariance, unit, owned.first, part(saved.second)).ok());
    ASSERT_TRUE(
        engine.WriteState(OptimizerState::kGradientError, unit, owned.first, part(saved.owed))
            .ok());
    units.push_back(unit);
  }
  ASSERT_TRUE(engine.Publish(units).ok());
  ASSERT_TRUE(engine.PublishState({.updates = saved.updates}).ok());
}

// Trains steps 1 to 3, or from what was saved on steps 4 to 6.
inline std::vector<double> TrainHalf(const std::vector<int>& nodes, std::string_view preset,
                                     bool from_saved, Saved& saved,
                                     const OffloadPlan& offload = {}) {
  std::vector<double> losses;
  std::mutex mutex;
  const int ranks = std::accumulate(nodes.begin(), nodes.end(), 0);
  const Saved before = saved;
  saved = {};
  RunRanks(ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    Engine::Options options = MakeOptions(Decoder(), preset, &communicator);
    options.site.link.ranks_of_node = nodes;
    options.plan.offload = offload;
    const auto engine = Engine::Create(std::move(options)).value();
    if (from_saved) Restore(before, *engine);
    const Share share = ShareOf(4, rank, ranks);
    for (int step = from_saved ? 4 : 1; step <= (from_saved ? 6 : 3); ++step) {
      const std::vector<int64_t> tokens = Tokens(step, share);
      const auto stats = Step(*engine, {share.count, kContext, tokens}, 4 * kContext, 0.01);
      ASSERT_TRUE(stats.ok()) << stats.status();
      if (rank == 0) losses.push_back(stats->loss_sum);
    }
    Save(*engine, mutex, saved);
  });
  return losses;
}

}  // namespace longhaul
