// Counts steps, tokens and times since a rank's first step, for Progress. Called from the training
// thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "worker/replica/replica.h"
#include "worker/session/evaluations.h"
#include "worker/session/session_observer.h"

namespace longhaul::session {

class ProgressMeter {
 public:
  // Whether the first step has begun.
  bool training() const { return training_; }
  // The first step begins.
  void Begin(absl::Time now) {
    training_ = true;
    since_ = now;
  }
  // A step was done. `beside`: an evaluation ran beside it.
  void Stepped(int64_t step, const StepStats& stats, bool beside);
  // Training waited for the coordinator.
  void Waited(absl::Duration time);
  // The training thread took snapshots or merged.
  void Synced(absl::Duration time);
  // The pool was asked to stop. `last_step` is its last, which it may not have run: a pool that was
  // called leaves steps out.
  void Drains(int64_t last_step) {
    progress_.draining = true;
    progress_.inner_step = last_step;
  }
  // All ranks of the pool merged the job's last commits.
  void MergedAll() { progress_.merged = true; }

  int64_t step() const { return progress_.inner_step; }
  // The progress at `now`. The caller fills in the uplink's values and the inner state.
  Progress Read(absl::Time now, const Evaluations& evaluations) const;

 private:
  Progress progress_;
  // Tokens of the steps beside which evaluations ran.
  int64_t tokens_beside_ = 0;
  bool training_ = false;
  absl::Time since_;
};

}  // namespace longhaul::session
