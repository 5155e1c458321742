// Where inner state lies at a site:
//
//   FOLDER/POOL/JOB-ID/step-000000001200.rank-3-of-8.safetensors
//
// and what becomes of the folders of jobs that have ended. The ranks of a pool remove the folder of
// their job when it ends. What is left then (the pool was away, its ranks were killed) the agent
// removes: it asks the coordinator, at Join and every few minutes, which jobs have ended. When a
// pool begins a job, folders of other jobs without a write for a week are removed, too. Stateless;
// calls block on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/io/filesystem.h"

namespace longhaul {

// Below `folder`. What a coordinator or a flag gave makes no path of its own.
std::string PoolStateFolder(const std::string& folder, const std::string& pool);
std::string JobStateFolder(const std::string& folder, const std::string& pool,
                           const std::string& job);

struct StateFileName {
  int64_t step = 0;
  int rank = 0, ranks = 1;
  std::string Text() const;
  // Nothing: it is no such name.
  static std::optional<StateFileName> Parse(absl::string_view name);
};

// Also of the temporary file that a crash may leave.
bool IsStateFile(absl::string_view name);

// The jobs of which inner state lies here, by id: folders that hold files of inner state, and
// nothing else.
std::vector<std::string> KeptJobs(FileSystem& fs, const std::string& pool_folder);
// Removes what KeptJobs names. FAILED_PRECONDITION: it holds something else, or nothing.
absl::Status RemoveKeptJob(FileSystem& fs, const std::string& pool_folder, const std::string& job);
// Removes the folders of other jobs than `job_folder`'s to which nothing was written for so long
// and that hold nothing but inner state. Returns their names.
std::vector<std::string> RemoveForgottenJobs(FileSystem& fs, const std::string& pool_folder,
                                             const std::string& job_folder, absl::Duration unused,
                                             absl::Time now);

}  // namespace longhaul
