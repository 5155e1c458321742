// What a coordinator finds in its database when it starts: the core's Recovery, and the jobs that
// have not ended. Their stores are opened later, by the works that the core begins.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/logging/logging.h"
#include "coordinator/core/recovery.h"
#include "coordinator/effects/live_job.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

struct RecoveredState {
  Recovery core;
  // Those that have not ended, in the order of their submission.
  std::vector<std::shared_ptr<LiveJob>> jobs;
  // Of all stored jobs, by number of v1::JobState.
  std::map<int, int64_t> jobs_by_state;
};

// A job whose spec this program does not accept any more, or whose records contradict each other,
// is quarantined with the reason; the others are not affected. Errors: those of the database.
absl::StatusOr<RecoveredState> RecoverState(MetaStore& meta, const Logger& log);

}  // namespace longhaul::coordinator
