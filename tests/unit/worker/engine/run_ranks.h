// Runs a pool of ranks as threads of the test, each with its communicator.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "worker/collective/thread_communicator.h"

namespace longhaul {

inline void RunRanks(int ranks,
                     const std::function<void(int rank, Communicator& communicator)>& body) {
  auto communicators = MakeThreadCommunicators(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { body(rank, *communicators[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace longhaul
