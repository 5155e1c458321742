// Where things lie in a job's folder.
#pragma once

#include <string>

#include "common/io/file_util.h"

namespace longhaul {

inline std::string ManifestPath(const std::string& job_dir) {
  return JoinPath(job_dir, "manifest");
}
// What is noted of the job's life (job_state_file.h).
inline std::string StatePath(const std::string& job_dir) { return JoinPath(job_dir, "state"); }
inline std::string LogFolder(const std::string& job_dir) { return JoinPath(job_dir, "log"); }
// The log of a job that has ended, while it is being removed (job_log_removal.h).
inline std::string RemovedLogFolder(const std::string& job_dir) {
  return JoinPath(job_dir, "log.removed");
}
inline std::string SnapshotFolder(const std::string& job_dir) { return JoinPath(job_dir, "snap"); }
// Curves of the job's runs, one folder each (coordinator/effects/job_tracks.h).
inline std::string TrackFolder(const std::string& job_dir) { return JoinPath(job_dir, "track"); }
// The tokenizer of the folder with which the job began (coordinator/fragments/kept_tokenizer.h),
// and where it is put together.
inline std::string TokenizerFolder(const std::string& job_dir) {
  return JoinPath(job_dir, "tokenizer");
}
inline std::string NewTokenizerFolder(const std::string& job_dir) {
  return JoinPath(job_dir, "tokenizer.tmp");
}
inline std::string CheckpointFolder(const std::string& job_dir) {
  return JoinPath(job_dir, "checkpoints");
}

}  // namespace longhaul
