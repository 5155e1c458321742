// The life of a job: its states, and the legal transitions as one table.
//
//   PENDING --> SEEDING --> RUNNING --> FINISHING --> COMPLETED
//      \___________\___________\____________\------> FAILED or CANCELLED
#pragma once

#include <string_view>

namespace longhaul {

enum class JobState { kPending, kSeeding, kRunning, kFinishing, kCompleted, kFailed, kCancelled };

// As in job.proto: "PENDING".
std::string_view JobStateName(JobState state);

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
