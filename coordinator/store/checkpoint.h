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

// Checkpoints in the folder of a job, oldest first. Also for jobs whose store is not open. Folders
// without a readable manifest are left out. Blocks.
absl::StatusOr<std::vector<v1::CheckpointManifest>> ListCheckpoints(FileSystem& fs,
                                                                    const std::string& job_dir);

// Folder of the checkpoint of a step, whether it is there or not.
std::string CheckpointPath(const std::string& job_dir, int64_t step);
// Steps of the checkpoints that are there, ascending. Reads no manifests.
absl::StatusOr<std::vector<int64_t>> CheckpointSteps(FileSystem& fs, const std::string& job_dir);

// Whether the files of one checkpoint's folder are what its manifest says. Each fault names its
// file. Reads everything.
std::vector<absl::Status> CheckCheckpoint(FileSystem& fs, const std::string& folder);

// Writes one checkpoint, fragment by fragment. Externally synchronised: one writer a job. Errors:
// the file system's; CleanCheckpoints then removes what there is.
class CheckpointWriter {
 public:
  // Makes the temporary folder. The manifest has job_id, job_name, step, final, created_at and
  // tensors, and what it likes of the rest but for fragments and path.
  static absl::StatusOr<CheckpointWriter> Begin(FileSystem* fs, const std::string& job_dir,
                                                v1::CheckpointManifest manifest);
  // Writes the file of the next fragment, from 0 in order. `digest` is that of the values.
  absl::Status AddFragment(int64_t version, const Digest128& digest,
                           absl::Span<const float> values);
  // Writes the manifest and gives the folder its name, in place of an earlier checkpoint of the
  // same step. Then removes the oldest checkpoints beyond `keep`, but for those of these steps.
  absl::StatusOr<v1::CheckpointManifest> Finish(int keep, const std::set<int64_t>& in_use = {});

 private:
  CheckpointWriter(FileSystem* fs, std::string job_dir, v1::CheckpointManifest manifest);

  FileSystem* fs_;
  std::string folder_, name_,
      temporary_;  // Of all checkpoints; the name of this one; where it is written.
  v1::CheckpointManifest manifest_;
};

// What a crash in CheckpointWriter may have left: temporary folders are removed, a checkpoint that
// was being replaced is put back.
absl::Status CleanCheckpoints(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
