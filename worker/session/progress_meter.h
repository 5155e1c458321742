// Counts what a rank has done since it first trained, for Progress. Of the training thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "worker/replica/replica.h"
#include "worker/session/evaluations.h"
#include "worker/session/rank_session.h"

namespace longhaul::session {

class ProgressMeter {
 public:
  // The first step begins.
  bool training() const { return training_; }
  void Begin(absl::Time now) {
    training_ = true;
    since_ = now;
  }
  // `beside`: while an evaluation ran beside it.
  void Stepped(int64_t step, const StepStats& stats, bool beside);
  void Waited(absl::Duration time);
  void Synced(absl::Duration time);
  void Drains() { progress_.draining = true; }

  int64_t step() const { return progress_.inner_step; }
  // As of now. What is not counted here is left to the caller.
  Progress Read(absl::Time now, const Evaluations& evaluations) const;

 private:
  Progress progress_;
  int64_t tokens_beside_ = 0;  // Of steps beside which evaluations ran.
  bool training_ = false;
  absl::Time since_;
};

}  // namespace longhaul::session
