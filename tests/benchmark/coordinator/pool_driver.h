// A hand-driven pool of the benchmarks: takes the only place of a job through its life, call by
// call. Ends the process where a call fails. Each object is used from one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/config/job_spec.h"
#include "coordinator/sync/round_plan.h"
#include "tests/integration/coordinator/hand_pool.h"

namespace longhaul::benchmark {

class PoolDriver {
 public:
  PoolDriver(const std::string& address, const std::string& name);

  HandPool& pool() { return pool_; }
  void Join();

  // --- Of one job after another.

  // Waits for its place in the job and opens the plan.
  void Take(const std::string& job, const v1::JobSpec& spec);
  // Waits until the job's store is open: the pool is asked for the initial parameters.
  void AwaitOpen();
  void Seed();
  // All rounds of the plan.
  void Rounds();
  // Tells that it is done; blocks until the job has ended.
  void Finish();
  // Waits until the job has ended.
  void AwaitEnd();
  // Pushes the next version of a fragment, waits for its commit.
  void Round(int fragment);
  // Opens the plan again: its stream has a deadline.
  void Renew();

 private:
  void AwaitCommit(int fragment, int64_t version);

  HandPool pool_;
  std::string job_;
  ResolvedJob resolved_;
  CodecKind codec_ = CodecKind::kFp32;
  // By fragment.
  std::vector<int64_t> versions_;
};

}  // namespace longhaul::benchmark
