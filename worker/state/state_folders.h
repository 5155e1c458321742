// Where inner state lies at a site:
//
//   FOLDER/POOL/JOB-ID/step-000000001200.rank-3-of-8.safetensors
//   FOLDER/POOL/unwritten-jobs    for how many hours nobody has written which job (UnwrittenJobs)
//
// and what becomes of the folders of jobs that have ended. The ranks of a pool remove the folder of
// their job when it ends. What is left then (the pool was away, its ranks were killed) the agent
// removes: it asks the coordinator, at Join and every few minutes, which jobs have ended. While its
// ranks do a job, it also removes what it has seen unwritten for a week (UnwrittenJobs). Calls
// block on the disk; the functions are stateless.
#pragma once

#include <cstdint>
#include <map>
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

// Finds jobs that nobody comes back to, of which the coordinator may know nothing. It counts only
// time that passes between its own looks: by the wall clock, which may be set, what was written a
// minute ago can look months old. What it has counted is kept in the pool's folder, in whole hours,
// so that a later start of the worker goes on from there; if that cannot be written, it begins
// anew. Externally synchronised.
class UnwrittenJobs {
 public:
  explicit UnwrittenJobs(absl::Duration forgotten_after = absl::Hours(7 * 24))
      : forgotten_after_(forgotten_after) {}

  // Those of `jobs` (of KeptJobs) to which nothing was written for so long. `pool_folder`: always
  // the same. `now`: a time that nobody sets (SteadyTime).
  std::vector<std::string> Look(FileSystem& fs, const std::string& pool_folder,
                                const std::vector<std::string>& jobs, absl::Time now);

 private:
  struct Seen {
    absl::Time last_write, since;
  };
  void Read(FileSystem& fs, const std::string& pool_folder, absl::Time now);
  void Write(FileSystem& fs, const std::string& pool_folder, absl::Time now);

  const absl::Duration forgotten_after_;
  bool read_ = false;
  std::map<std::string, Seen> seen_;
  // The file's content. Empty: there is no file.
  std::string kept_;
};

}  // namespace longhaul
