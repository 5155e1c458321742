// Finds in the database what a coordinator needs when it starts: the core's Recovery, and the
// jobs that have not ended. Their stores are opened later, by works that the core begins.
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
  // The jobs that have not ended, in the order of their submission.
  std::vector<std::shared_ptr<LiveJob>> jobs;
  // The number of stored jobs.
  std::map<JobState, int64_t> jobs_by_state;
  // RunTime at this start.
  absl::Duration run_time;
};

// Adds the stored evaluations of a job. Any thread; blocks. Errors: those of the database.
absl::Status ReadEvaluations(MetaStore& meta, const std::string& job, JobProgress& progress);

// `now`: when this coordinator begins. An ended job whose end was written without RunTime is kept
// as if it ended now; that is stored, unless the disk is full.
//
// A job is quarantined, with the reason, if this program does not accept its spec any more or if
// its records contradict each other. The others are not affected. Errors: those of the database.
absl::StatusOr<RecoveredState> RecoverState(MetaStore& meta, const Logger& log);

}  // namespace longhaul::coordinator
