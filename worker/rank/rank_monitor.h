// Knows what a rank is doing, and how long that usually takes. The agent uses it to end ranks that
// make no progress, and the rank to choose the timeout of its collectives. Thread-safe. No call
// blocks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/rank_report.h"
#include "worker/collective/communicator.h"

namespace longhaul {

class RankMonitor : public CollectiveWatch {
 public:
  explicit RankMonitor(const ProgressLimits& limits) : limits_(limits) {}

  // Called by the training thread around an inner step, and around an evaluation of `batches`
  // batches. `took`: the time of the step.
  void BeginStep();
  void EndStep(int64_t step, absl::Duration took);
  void BeginEvaluation(int64_t batches);
  void EndEvaluation();
  // The rank waits for `what` from the coordinator. Empty: it no longer waits.
  void WaitsFor(const std::string& what);
  // Also called on the threads of pulls.
  void PullDamaged();
  absl::Duration BeginCollective() override;
  void EndCollective() override;

  RankStatus Status() const;
  // The timeout of a collective that begins now. During steps and evaluations, which ranks begin
  // together, it is twice the limit of the agent: so the agent acts first, and can name the rank.
  // At other times a rank may wait for one that waits for the coordinator, for an unknown time;
  // then only the agent judges, and the timeout is long.
  absl::Duration CollectiveTimeout() const;
  // How long a wait that begins now may take for what is this rank's own: its device, its disk, its
  // threads. It is less than the limit of the agent: so the rank reports what failed at its site,
  // before the agent ends it.
  absl::Duration OwnPatience() const;

 private:
  // The median is over so many newest steps.
  static constexpr int kKept = 31;
  // The expected seconds of what runs now. A batch of an evaluation counts as a step; it takes
  // less, since it has no backward pass.
  double Expected() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ProgressLimits limits_;
  mutable absl::Mutex mutex_;
  // Without expected_seconds.
  RankStatus status_ ABSL_GUARDED_BY(mutex_);
  // A step or an evaluation runs.
  bool together_ ABSL_GUARDED_BY(mutex_) = false;
  // What runs now takes as long as so many steps.
  int64_t steps_now_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<double, kKept> newest_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace longhaul
