// Trains a small model on the ranks of a pool, as threads, and evaluates it.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/testing/language_run.h"
#include "tests/testing/thread_communicator.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {

// Held-out loss after `steps` steps; each rank gets the options with a communicator.
inline double HeldOutLoss(const LanguageRun& options, int ranks, int steps) {
  auto communicators = MakeThreadCommunicators(ranks);
  std::vector<std::thread> threads;
  double loss = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, own = options]() mutable {
      own.site.link.communicator = communicators[rank].get();
      const auto replica = CreateReplica(own);
      ASSERT_TRUE(replica.ok()) << replica.status();
      for (int step = 1; step <= steps; ++step) ASSERT_TRUE((*replica)->Step(step).ok());
      ASSERT_TRUE((*replica)->Settle().ok());
      const auto evaluated = (*replica)->Evaluate();
      ASSERT_TRUE(evaluated.ok()) << evaluated.status();
      if (rank == 0) loss = evaluated->loss;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return loss;
}

// The run in which optimizers and partitions are compared: a small decoder on English text, four
// ranks.
inline constexpr int kComparedSteps = 800, kComparedRanks = 4;
inline LanguageRun ComparedRun(uint64_t seed) {
  return {.plan = {.batch = 8,
                   .seed = seed,
                   .learning_rate = {.peak = 4e-3, .steps = kComparedSteps, .warmup_steps = 30},
                   .optimizer = AdamWOptions{.weight_decay = 0.01},
                   .eval_batches = 16},
          .language = {.shape = {.layers = 2,
                                 .dim = 32,
                                 .heads = 2,
                                 .kv_heads = 2,
                                 .ff_dim = 64,
                                 .context = 32,
                                 .vocab = 256},
                       .sources = {{.source = {.path = "/usr/share/common-licenses/GPL-3"}}}}};
}

}  // namespace longhaul
