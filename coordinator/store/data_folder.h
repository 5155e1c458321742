// A coordinator's data folder as a whole: whether its database and the jobs' folders know of each
// other, and how the database comes to know jobs again.
//
//   <data>/coordinator.db
//   <data>/jobs/<id>/      a job's store (job_store.h)
//   <data>/jobs/<id>.tmp/  one whose making was interrupted
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
  // Folders of no job in the database, by name. A database that is empty or was replaced shows here.
  std::vector<std::string> unknown_folders;
  // Jobs that had a store (RUNNING, FINISHING, COMPLETED, QUARANTINED) and have no folder.
  std::vector<JobKey> missing_folders;
  bool clean() const { return unknown_folders.empty() && missing_folders.empty(); }
};

// One list, one query; opens no store. No folder of jobs counts as an empty one. Errors: those of
// both.
absl::StatusOr<FolderFindings> CompareFolders(FileSystem& fs, const std::string& data_dir,
                                              MetaStore& meta);

struct Adoption {
  std::vector<JobRecord> adopted;       // As they are in the database now.
  std::vector<std::string> left_alone;  // Of each other folder: why, naming it.
};

// Makes records of the jobs whose folders the database does not know, from their manifests, in the
// order in which they were submitted: state RUNNING, no status, no places. A manifest that is
// damaged or of another folder, an id, name or token that is taken: left alone. Changes no folder.
absl::StatusOr<Adoption> AdoptJobs(FileSystem& fs, const std::string& data_dir, MetaStore& meta);

}  // namespace longhaul
