// Trains a small model on the ranks of a pool, as threads, and evaluates it.
#pragma once

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "worker/collective/thread_communicator.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {

// Held-out loss after `steps` steps; each rank gets the options with a communicator.
inline double HeldOutLoss(const TorchReplica::Options& options, int ranks, int steps) {
  auto communicators = MakeThreadCommunicators(ranks);
  std::vector<std::thread> threads;
  double loss = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, own = options]() mutable {
      own.communicator = communicators[rank].get();
      const auto replica = TorchReplica::Create(own);
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

}  // namespace longhaul
