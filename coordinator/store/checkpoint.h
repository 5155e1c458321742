// Checkpoints: the outer parameters of a job as plain files, for people and tools. They are not
// needed for recovery.
//
//   <dir>/checkpoints/step-00000900/manifest.json       CheckpointManifest (common/checkpoint)
//                                   fragment-000.f32    little-endian fp32, canonical layout
//
// A checkpoint appears whole or not at all: it is written to a temporary folder, synced and
// renamed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/digest.h"
#include "common/io/filesystem.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// Returns the checkpoints in a job's folder, oldest first; none if there is no folder. The job's
// store need not be open. Folders without a readable manifest are left out. Blocks.
absl::StatusOr<std::vector<v1::CheckpointManifest>> ListCheckpoints(FileSystem& fs,
                                                                    const std::string& job_dir);

// The folder of the checkpoint of a step, whether it exists or not.
std::string CheckpointPath(const std::string& job_dir, int64_t step);
// The steps of the existing checkpoints, ascending; empty if there is no folder. Reads no
// manifests.
absl::StatusOr<std::vector<int64_t>> CheckpointSteps(FileSystem& fs, const std::string& job_dir);
// The step of the checkpoint that is wanted: `step`, or the newest if it is empty. NOT_FOUND: "no
// checkpoints", "no checkpoint of step 30".
absl::StatusOr<int64_t> FindCheckpoint(FileSystem& fs, const std::string& job_dir,
                                       std::optional<int64_t> step);

// Compares the files of one checkpoint's folder with its manifest. Returns one error for each
// fault; it names the file. Reads everything.
std::vector<absl::Status> CheckCheckpoint(FileSystem& fs, const std::string& folder);

// Writes one checkpoint, fragment by fragment. Externally synchronised: one writer for each job.
// Errors: those of the file system. CleanCheckpoints then removes what was written.
class CheckpointWriter {
 public:
  // Makes the temporary folder. The caller sets job_id, job_name, step, final, created_at and
  // tensors of the manifest, and any other field except fragments and path.
  static absl::StatusOr<CheckpointWriter> Begin(FileSystem* fs, const std::string& job_dir,
                                                v1::CheckpointManifest manifest);
  // Writes the file of the next fragment; fragments come in order from 0. `digest` is that of the
  // values.
  absl::Status AddFragment(int64_t version, const Digest128& digest,
                           absl::Span<const float> values);
  // Writes the manifest and gives the folder its name, in place of an earlier checkpoint of the
  // same step. Then removes the oldest checkpoints beyond `keep`, except those of the steps in
  // `in_use`.
  absl::StatusOr<v1::CheckpointManifest> Finish(int keep, const std::set<int64_t>& in_use = {});

 private:
  CheckpointWriter(FileSystem* fs, std::string job_dir, v1::CheckpointManifest manifest);

  FileSystem* fs_;
  // The folder of all checkpoints, the name of this one, and the folder in which it is written.
  std::string folder_, name_, temporary_;
  v1::CheckpointManifest manifest_;
};

// Tidies up after a crash in CheckpointWriter: removes temporary folders, and puts a checkpoint
// back whose replacement was interrupted.
absl::Status CleanCheckpoints(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
