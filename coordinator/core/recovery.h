// What a coordinator's core is constructed from after a restart: what the Persist* actions and the
// commits made durable, and the contributions that the log still holds whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/job/job_options.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul::coordinator {

struct RecoveredParticipant {
  std::string pool, incarnation;
  int ordinal = 0;
  std::optional<int64_t> start_step;
  bool left = false;
};

struct RecoveredFragment {
  int64_t version = -1;   // The newest durable commit. -1: not seeded.
  std::string evaluator;  // Of that commit.
  // Ordinals whose whole contribution to version + 1 is in the log. An incarnation that had two
  // places contributed as the newest. Those that could not count are ignored.
  std::vector<int> contributors;
};

struct RecoveredJob {
  std::string job;
  JobOptions options;
  JobState state = JobState::kPending;
  bool final_evaluation = false;  // It was reported already.
  std::vector<RecoveredParticipant>
      participants;  // Also those that left, so that no ordinal is given twice.
  std::vector<RecoveredFragment> fragments;  // Empty: no commit yet.
};

// Jobs in the order of their submission; those that ended need not be here.
struct Recovery {
  std::vector<RecoveredJob> jobs;
};

}  // namespace longhaul::coordinator
