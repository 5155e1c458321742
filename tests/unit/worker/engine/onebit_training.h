// Trains a small transformer by 1-bit Adam on the ranks of a pool, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "absl/algorithm/container.h"
#include "common/base/random.h"
#include "common/base/share.h"
#include "tests/testing/token_steps.h"
#include "tests/unit/worker/engine/run_ranks.h"
#include "worker/engine/engine.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {

inline constexpr int64_t kSequence = 8, kWords = 11, kUsedWords = 7;
inline constexpr int kFreeze = 3;
using Units = std::vector<std::vector<float>>;

struct OneBitRun {
  int ranks = 1;
  std::vector<int> nodes = {};
  OptimizerOptions optimizer = OneBitAdamOptions{.freeze_step = kFreeze};
  int steps = 6;
  double clip_norm = 0;
  int accumulation = 1;
  at::ScalarType compute = at::kFloat;
  std::vector<int> settled = {};  // Steps after which the pool is settled, as it is after the last.
};

struct OneBitResult {
  std::vector<Units> parameters;   // Of every rank, all of them.
  std::vector<StepResult> steps;   // Of rank 0.
  std::vector<int64_t> frozen_at;  // Of rank 0, after each step.
  // What rank 0 received of gradients, momentum and steps in each step, and for settling after it.
  std::vector<int64_t> gradient_bytes;
};

inline Engine::Options OneBitOptions(const OneBitRun& run, Communicator& communicator) {
  return {.plan = {.accumulation = run.accumulation,
                   .seed = 4,
                   .optimizer = run.optimizer,
                   .clip_norm = run.clip_norm,
                   .precision = PrecisionOf(run.compute)},
          .site = {.link = {.communicator = &communicator, .ranks_of_node = run.nodes}},
          .model = TransformerLm::Create({.layers = 2,
                                          .dim = 16,
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .ff_dim = 24,
                                          .context = kSequence,
                                          .vocab = kWords},
                                         at::kCPU)
                       .value()};
}

inline Units ReadUnits(const Engine& engine) {
  Units units;
  for (int unit = 0; unit < static_cast<int>(engine.layout().units.size()); ++unit) {
    units.emplace_back(engine.layout().units[unit].elements);
    EXPECT_TRUE(engine.Read(unit, 0, absl::MakeSpan(units.back())).ok());
  }
  return units;
}

// A rank's share of the step's four sequences, of tokens below kUsedWords.
inline std::vector<int64_t> OneBitTokens(int step, const Share& share) {
  std::vector<int64_t> tokens;
  for (int64_t s = share.first; s < share.first + share.count; ++s) {
    Random random(100 * step + s);
    for (int i = 0; i <= kSequence; ++i)
      tokens.push_back(static_cast<int64_t>(random.Below(kUsedWords)));
  }
  return tokens;
}

inline absl::StatusOr<StepResult> OneBitStep(Engine& engine, int step, int rank, int ranks,
                                             double rate = 0.01) {
  const Share share = ShareOf(4, rank, ranks);
  return Step(engine, {share.count, kSequence, OneBitTokens(step, share)}, 4 * kSequence, rate);
}

// What gradients, momentum and steps of updates cost a rank.
inline int64_t GradientBytes(const ReceivedBytes& received) {
  int64_t bytes = 0;
  for (const Level level : {Level::kPair, Level::kNode, Level::kPool})
    bytes += received.Total(Use::kGradient, level);
  return bytes;
}
inline int64_t GradientBytes(const StepResult& step) { return GradientBytes(step.received); }

inline OneBitResult TrainOneBit(const OneBitRun& run) {
  OneBitResult result;
  result.parameters.resize(run.ranks);
  std::mutex mutex;
  RunRanks(run.ranks, [&](int rank, Communicator& communicator) {
    at::set_num_threads(1);
    const auto made = Engine::Create(OneBitOptions(run, communicator));
    ASSERT_TRUE(made.ok()) << made.status();
    Engine& engine = **made;
    for (int step = 1; step <= run.steps; ++step) {
      const auto stats = OneBitStep(engine, step, rank, run.ranks);
      ASSERT_TRUE(stats.ok()) << stats.status();
      int64_t bytes = GradientBytes(stats->received);
      if (step == run.steps || absl::c_linear_search(run.settled, step)) {
        const auto settling = engine.Settle();
        ASSERT_TRUE(settling.ok()) << settling.status();
        bytes += GradientBytes(*settling);
      }
      if (rank != 0) continue;
      result.gradient_bytes.push_back(bytes);
      result.steps.push_back(*stats);
      result.frozen_at.push_back(engine.phase().frozen_at);
    }
    const std::lock_guard lock(mutex);
    result.parameters[rank] = ReadUnits(engine);
  });
  return result;
}

// Everything that a rank knows between two steps.
struct RankState {
  Units parameters, moment, variance, worker, server;
  OptimizerPhase phase;
};

inline RankState SaveState(Engine& engine) {
  RankState state{.parameters = ReadUnits(engine), .phase = engine.phase()};
  for (int unit = 0; unit < static_cast<int>(state.parameters.size()); ++unit) {
    for (const auto& [kind, values] : {std::pair{OptimizerState::kMoment, &state.moment},
                                       {OptimizerState::kVariance, &state.variance}}) {
      values->emplace_back(state.parameters[unit].size());
      EXPECT_TRUE(engine.ReadState(kind, unit, 0, absl::MakeSpan(values->back())).ok());
    }
    const auto worker = engine.FeedbackOf(Feedback::kWorker, unit);
    const auto server = engine.FeedbackOf(Feedback::kServer, unit);
    state.worker.emplace_back(worker.begin(), worker.end());
    state.server.emplace_back(server.begin(), server.end());
  }
  return state;
}

inline void RestoreState(const RankState& state, Engine& engine) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(state.parameters.size()); ++unit) {
    ASSERT_TRUE(engine.Write(unit, 0, state.parameters[unit]).ok());
    ASSERT_TRUE(engine.WriteState(OptimizerState::kMoment, unit, 0, state.moment[unit]).ok());
    ASSERT_TRUE(engine.WriteState(OptimizerState::kVariance, unit, 0, state.variance[unit]).ok());
    units.push_back(unit);
  }
  ASSERT_TRUE(engine.Publish(units).ok());
  ASSERT_TRUE(engine.PublishState(state.phase).ok());
  for (const int unit : units) {
    for (const auto& [end, values] : {std::pair{Feedback::kWorker, &state.worker[unit]},
                                      {Feedback::kServer, &state.server[unit]}}) {
      const absl::Span<float> to = engine.FeedbackOf(end, unit);
      ASSERT_EQ(to.size(), values->size());
      std::copy(values->begin(), values->end(), to.begin());
    }
  }
}

}  // namespace longhaul
