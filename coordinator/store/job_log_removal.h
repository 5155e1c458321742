// What remains of a job that has ended is its last checkpoint. The log and the snapshots, which
// serve only recovery and take 24 bytes a parameter and more, are removed.
//
//   <dir>/log/           there until the job has ended
//   <dir>/log.removed/   the same, while its files are being removed
//
// Functions of their arguments; they block. Errors are also those of the file system.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// The checkpoint that the job ended with (CheckpointManifest.last). nullopt: it has none.
absl::StatusOr<std::optional<v1::CheckpointManifest>> ReadLastCheckpoint(
    FileSystem& fs, const std::string& job_dir);

// Whether the log was removed. DATA_LOSS: there is neither a log nor a last checkpoint.
absl::StatusOr<bool> IsLogRemoved(FileSystem& fs, const std::string& job_dir);

// Removes log and snapshots of a job that has ended. Its store must not be open. First it reads the
// last checkpoint and verifies every digest. Durable. After an error or a crash it may be repeated;
// if nothing is left to remove, it does nothing. A job that was cancelled or failed may have no
// last checkpoint: an earlier version wrote it, or a crash or a full disk came between. Then the
// newest one becomes the last, if the log has nothing newer; this reads the whole log. False: the
// log stays.
//   DATA_LOSS  the last checkpoint is damaged; nothing was removed
absl::StatusOr<bool> RemoveJobLog(FileSystem& fs, const std::string& job_dir);

}  // namespace longhaul
