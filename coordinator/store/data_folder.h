// A coordinator's data folder as a whole: compares its database with the folders of the jobs, and
// adds jobs to the database that it lacks.
//
//   <data>/coordinator.db
//   <data>/jobs/<id>/      a job's store (job_store.h)
//   <data>/jobs/<id>.tmp/  a store whose creation was interrupted
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/file_util.h"
#include "common/io/filesystem.h"
#include "coordinator/store/meta_store.h"

namespace longhaul {

inline std::string DatabasePath(const std::string& data_dir) {
  return JoinPath(data_dir, "coordinator.db");
}
inline std::string JobsFolder(const std::string& data_dir) { return JoinPath(data_dir, "jobs"); }
inline std::string JobFolder(const std::string& data_dir, const std::string& job_id) {
  return JoinPath(JobsFolder(data_dir), job_id);
}

struct FolderFindings {
  // All that the database has, oldest first.
  std::vector<JobKey> jobs;
  // Names of folders whose job is not in the database. So a database that is empty or was replaced
  // is noticed.
  std::vector<std::string> unknown_folders;
  // Jobs that had a store (RUNNING, FINISHING, COMPLETED, QUARANTINED) but have no folder.
  std::vector<JobKey> missing_folders;
};

// Reads one list of folders and makes one query; opens no store. If the folder of all jobs does not
// exist, it counts as empty. Errors: those of the file system and of the database.
absl::StatusOr<FolderFindings> CompareFolders(FileSystem& fs, const std::string& data_dir,
                                              MetaStore& meta);

struct Adoption {
  // The new records, as they are in the database now.
  std::vector<JobRecord> adopted;
  // One line for each other folder: its name, and why it was not adopted.
  std::vector<std::string> left_alone;
};

// Makes records of the jobs whose folders the database does not know, from their manifests, in the
// order in which they were submitted, without participants. What a folder notes of the job's life
// (job_state_file.h) stays so: a job that was paused is paused, one that had ended has ended, one
// that was deleted is removed by the next start. Any other is SEEDING or RUNNING, by what its store
// has; one whose log was removed (job_log_removal.h) is COMPLETED or CANCELLED. A folder is left
// alone if its manifest or its note is damaged, if the manifest belongs to another folder, or if
// the id, name or token is taken. Changes no folder.
absl::StatusOr<Adoption> AdoptJobs(FileSystem& fs, const std::string& data_dir, MetaStore& meta);

}  // namespace longhaul
