#include "coordinator/job/lifecycle.h"

#include "common/base/check.h"

namespace longhaul {
namespace {

struct Transition {
  JobState from, to;
};

// A job moves forward one state at a time. FAILED, CANCELLED and QUARANTINED may follow every live
// state.
constexpr Transition kForward[] = {
    {JobState::kPending, JobState::kSeeding},
    {JobState::kSeeding, JobState::kRunning},
    {JobState::kRunning, JobState::kFinishing},
    {JobState::kFinishing, JobState::kCompleted},
};

}  // namespace

const char* JobStateName(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kSeeding:
      return "SEEDING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kFinishing:
      return "FINISHING";
    case JobState::kCompleted:
      return "COMPLETED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kQuarantined:
      return "QUARANTINED";
    case JobState::kPausing:
      return "PAUSING";
    case JobState::kPaused:
      return "PAUSED";
  }
  return "UNKNOWN";
}

bool IsLegal(JobState from, JobState to) {
  if (to == JobState::kCancelled) return !IsEnded(from);
  if (from > JobState::kCancelled) return false;
  if (to == JobState::kFailed || to == JobState::kQuarantined) return !IsEnded(from);
  for (const Transition& t : kForward) {
    if (t.from == from && t.to == to) return true;
  }
  return false;
}

void Lifecycle::MoveTo(JobState to) {
  LH_CHECK(IsLegal(state_, to), "illegal transition of a job");
  state_ = to;
}

}  // namespace longhaul
