// Many idle pools in this process, each as an agent appears to its coordinator that has had nothing
// to do for a while: a connection of its own with a heartbeat a second, and another one with an
// open stream for logs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "tests/benchmark/operations/coordinator_process.h"

namespace longhaul::benchmark {

// Ends the process where a pool cannot join. Leaves nothing behind but the pools' leases.
class Fleet {
 public:
  // Joins all pools, then sends their heartbeats, spread evenly over time. `heartbeat`: as agents
  // have it (worker/agent/membership_client.h).
  Fleet(const CoordinatorProcess& coordinator, int pools, absl::Duration heartbeat);
  ~Fleet();

  // So far. A heartbeat that is due while the one before is not answered counts as late, and is
  // left out.
  int64_t answered() const { return answered_; }
  int64_t late() const { return late_; }
  int64_t failed() const { return failed_; }

 private:
  struct Pool;
  void Join(const CoordinatorProcess& coordinator, int number);
  void Beat(Pool& pool);

  std::vector<Pool> pools_;
  std::atomic<size_t> joined_ = 0;  // The first so many.
  std::atomic<int64_t> answered_ = 0, late_ = 0, failed_ = 0;
  std::jthread thread_;
};

}  // namespace longhaul::benchmark
