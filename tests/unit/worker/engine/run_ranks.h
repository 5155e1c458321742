// Runs a pool of ranks as threads of the test, each with its communicator.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/testing/thread_communicator.h"

namespace longhaul {

using RankBody = std::function<void(int rank, Communicator& communicator)>;

inline void RunRanks(std::vector<std::unique_ptr<Communicator>> communicators,
                     const RankBody& body) {
  const auto ranks = static_cast<int>(communicators.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *communicators[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
}
inline void RunRanks(int ranks, const RankBody& body) {
  RunRanks(MakeThreadCommunicators(ranks), body);
}

}  // namespace longhaul
