// What a coordinator finds in its data folder when it starts: the core's Recovery, and the live
// jobs with their open stores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "coordinator/core/recovery.h"
#include "coordinator/service/live_job.h"
#include "coordinator/store/meta_store.h"

namespace longhaul::coordinator {

struct RecoveredState {
  Recovery core;
  std::vector<std::shared_ptr<LiveJob>>
      jobs;                        // Those that have not ended, in the order of their submission.
  std::vector<int> jobs_by_state;  // Of all stored jobs, by number of v1::JobState.
};

// The folder of a job's store.
std::string JobDirOf(const std::string& data_dir, const std::string& job_id);

// Opens the store of a job, or makes it if it was never made. Blocks.
absl::StatusOr<std::unique_ptr<JobStore>> OpenJobStore(FileSystem& fs, const std::string& dir,
                                                       const ResolvedJob& resolved);

// Reads everything; blocks for as long as the rounds since the last snapshots take to be applied
// again. A job whose spec this version does not accept any more is left out, with a line in the
// log. Errors: those of the stores. DATA_LOSS names the file.
absl::StatusOr<RecoveredState> RecoverState(MetaStore& meta, FileSystem& fs,
                                            const std::string& data_dir, const Logger& log);

}  // namespace longhaul::coordinator
