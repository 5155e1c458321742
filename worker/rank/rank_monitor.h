// What a rank is doing and how long it usually takes: for its agent, which ends ranks that make no
// progress, and for the timeout of its own collectives. Thread-safe; nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

class RankMonitor {
 public:
  explicit RankMonitor(const ProgressLimits& limits) : limits_(limits) {}

  // The training thread: it begins inner step `step`, or an evaluation of so many batches; then it
  // has done that. `took`: for a step alone.
  void BeginStep();
  void EndStep(int64_t step, absl::Duration took);
  void BeginEvaluation(int64_t batches);
  void EndEvaluation();
  // It waits for the coordinator; empty: no longer.
  void WaitsFor(const std::string& what);
  void EnterCollective();
  void LeaveCollective();

  RankStatus Status() const;
  // How long a collective of what runs now may take. Ranks begin steps and evaluations together, so
  // twice what the agent allows: it comes first, and can name the rank. Elsewhere a rank may wait
  // for one that waits for the coordinator, and no pace explains how long: the agent alone judges.
  absl::Duration CollectiveTimeout() const;

 private:
  static constexpr int kKept = 31;  // Newest steps, for the median.
  // An evaluation has no backward pass, so a batch takes less than a step.
  double Expected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ProgressLimits limits_;
  mutable absl::Mutex mutex_;
  RankStatus status_ ABSL_GUARDED_BY(mutex_);  // Without expected_seconds.
  bool together_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t steps_now_ ABSL_GUARDED_BY(mutex_) = 1;  // What runs takes as long as so many steps.
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<double, kKept> newest_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace longhaul
