// What a rank's session reports while it trains: values, and the observer that is called with them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/named_value.h"
#include "worker/replica/replica.h"
#include "worker/state/state_keeper.h"

namespace longhaul::session {

// How far a rank is. Its seconds are of the training thread and add up to the time since the first
// step began.
struct Progress {
  int64_t inner_step = 0;
  // The pool was asked to stop, and inner_step is the last.
  bool draining = false;
  // The pool has merged the job's last commits. What follows is an evaluation.
  bool merged = false;
  // Of the steps that were not skipped.
  int64_t tokens = 0;
  // Those of them on which the loss was, if it was not on all. Otherwise 0.
  int64_t target_tokens = 0;
  // Steps that changed nothing because their gradient was not finite.
  int64_t skipped_steps = 0;
  // Of the newest step.
  double train_loss = 0, gradient_norm = 0, learning_rate = 0;
  // Since the first step. The first leaves out the time of evaluations and the steps beside them;
  // the second includes both.
  double tokens_per_second = 0, tokens_per_second_with_evaluation = 0;
  double compute_seconds = 0;
  // Training waited for the coordinator.
  double exposed_wait_seconds = 0;
  // Snapshots, merges, publishing.
  double sync_seconds = 0;
  // Training waited for an evaluation.
  double eval_seconds = 0;
  // Of the newest contribution: its normalized mean squared error, and the L2 norm of the error
  // feedback that it leaves.
  double uplink_nmse = 0, error_feedback_norm = 0;
  // Since the first step.
  InPoolTraffic received;
  // Of the newest step; see StepStats.
  double weights_nmse = 0, gradients_nmse = 0;
  StateReport inner_state;
};

struct EvaluationResult {
  // Whose parameters were evaluated: the pool's at the end of `step`, or the outer ones of
  // `version`.
  int64_t step = 0, version = 0;
  double loss = 0;
  int64_t tokens = 0;
  // The last one of the job.
  bool final = false;
  // Of the pool's own parameters.
  bool of_pool = false;
  std::vector<NamedValue> metrics;
};

// What a merge made. `outer`: the outer parameters of the fragment's blocks that this rank owns.
struct MergeRecord {
  int fragment = 0;
  int64_t version = 0, step = 0;
  std::vector<float> outer;
};

// Each may be empty. Called on the training thread, which waits for them: they must be quick.
// on_damaged_pull is called on the threads of pulls.
struct SessionObserver {
  // After every step, before the last evaluation, and at the end.
  std::function<void(const Progress&)> on_progress;
  std::function<void(const EvaluationResult&)> on_evaluation;
  std::function<void(const MergeRecord&)> on_merge;
  // What training waits for from the coordinator. Empty: it no longer waits. Must not call the
  // session.
  std::function<void(const std::string&)> on_wait;
  // Bytes of a pull were damaged; it is tried again.
  std::function<void()> on_damaged_pull;
  // Before and after the pool's ranks compute together: a step, or an evaluation for which training
  // waits (0). `took`: what the replica took.
  std::function<void(int64_t step)> on_compute;
  std::function<void(int64_t step, absl::Duration took)> on_computed;
};

// Calls the replica for a step, or for an evaluation (0), and tells the observer.
template <typename Call>
auto Observed(const SessionObserver& observer, int64_t step, Call&& call) {
  const absl::Time begin = SteadyTime();
  if (observer.on_compute) observer.on_compute(step);
  auto result = call();
  if (observer.on_computed) observer.on_computed(step, SteadyTime() - begin);
  return result;
}

}  // namespace longhaul::session
