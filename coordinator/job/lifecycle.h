// The life of a job: its states, and the legal transitions as one table.
//
//   PENDING --> SEEDING --> RUNNING --> FINISHING --> COMPLETED
//      \___________\___________\____________\------> FAILED, CANCELLED or QUARANTINED
//   QUARANTINED --> CANCELLED
//
// QUARANTINED holds only for this run of the coordinator: it is not stored, so the next start tries
// again from the state before.
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
};

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
