// The life of a job: its states, and the legal transitions as one table.
//
//   PENDING --> SEEDING --> RUNNING --> FINISHING --> COMPLETED
//      \___________\___________\____________\------> FAILED, CANCELLED or QUARANTINED
//   QUARANTINED --> CANCELLED
//
// QUARANTINED holds only for this run of the coordinator: it is not stored, so the next start tries
// again from the state before.
//
// A job may be paused in the states before FINISHING. It keeps its state, and has a PauseStage
// beside it; people see PAUSING or PAUSED in its place.
//
//   kNone, kResumed --pause--> kPausing --all pools have stopped--> kPaused
//   kPausing, kPaused --resume--> kResumed --a pool gets the job--> kNone
#pragma once

namespace longhaul {

// The numbers are those of v1::JobState.
enum class JobState {
  kPending = 1,
  kSeeding = 2,
  kRunning = 3,
  kFinishing = 4,
  kCompleted = 5,
  kFailed = 6,
  kCancelled = 7,
  kQuarantined = 8,
  // Shown only; no Lifecycle has them.
  kPausing = 9,
  kPaused = 10,
};

// The numbers are stored.
enum class PauseStage {
  kNone = 0,
  // Its pools are asked to stop.
  kPausing = 1,
  // It has no pools, and its store is closed.
  kPaused = 2,
  // It needs as many pools as at its beginning.
  kResumed = 3,
};

constexpr bool IsPaused(PauseStage stage) {
  return stage == PauseStage::kPausing || stage == PauseStage::kPaused;
}
// The state that people see.
constexpr JobState ShownState(JobState state, PauseStage stage) {
  if (!IsPaused(stage) || state == JobState::kQuarantined) return state;
  return stage == PauseStage::kPausing ? JobState::kPausing : JobState::kPaused;
}

// The name in job.proto: "PENDING".
const char* JobStateName(JobState state);

constexpr bool IsEnded(JobState state) {
  return state == JobState::kCompleted || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool IsLegal(JobState from, JobState to);

// Externally synchronised.
class Lifecycle {
 public:
  Lifecycle() = default;
  explicit Lifecycle(JobState state) : state_(state) {}
  JobState state() const { return state_; }
  bool ended() const { return IsEnded(state_); }
  // Requires IsLegal(state(), to).
  void MoveTo(JobState to);

 private:
  JobState state_ = JobState::kPending;
};

}  // namespace longhaul
