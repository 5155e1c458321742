// What a job's folder says about the job's life: that it is paused, how it ended, or that it was
// deleted. The database decides as long as there is one. Without it, --adopt goes by these notes
// (data_folder.h), so that no job trains again that should not.
//
//   <dir>/state    replaced whole, durably; none: the job goes on
//
// A note is written after the database has the same, so after a crash it may be one step behind.
// Then the job is adopted as what it was before. The notes of an end come before the log is
// removed, those of a deletion before any file is.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/io/filesystem.h"
#include "coordinator/job/lifecycle.h"

namespace longhaul {

struct JobStateNote {
  // kRunning: the job goes on, seeded or not. kPaused: it is paused, or is being paused. Or a state
  // in which it has ended.
  JobState state = JobState::kRunning;
  // It was deleted after its end.
  bool deleted = false;
  // Since when, and for a pause by whom and why.
  absl::Time at = absl::InfinitePast();
  std::string by = {}, reason = {};
  // Bytes of the caller's message, as in JobUpdate::status and PauseRecord::report. May be empty.
  std::string report = {};
};

// OK without a folder: the job has no store yet, and nothing to adopt. Other errors: those of the
// file system; the note before stays then.
absl::Status WriteJobState(FileSystem& fs, const std::string& job_dir, const JobStateNote& note);

// The default if there is none. DATA_LOSS: it is damaged. FAILED_PRECONDITION: another version of
// the program wrote it. Both name the file.
absl::StatusOr<JobStateNote> ReadJobState(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
