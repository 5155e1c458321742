// Snapshots: the whole state of one fragment at one version, as a file. Written new, synced,
// renamed, the folder synced; digests tell a damaged one from a good one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "coordinator/store/fragment_state.h"

namespace longhaul {

struct SnapshotFile {
  int fragment = 0;
  int64_t version = 0;
  std::string path;
  uint64_t commit_sequence = 0;  // Of the frame that committed the version.
};

struct DamagedSnapshot {
  std::string path;
  absl::Status status;  // DATA_LOSS, naming file and offset.
};

struct SnapshotList {
  std::vector<SnapshotFile> files;  // Whose header is good, by fragment, then version.
  std::vector<DamagedSnapshot> damaged;
  std::vector<std::string> temporary;  // Paths of what an interrupted writer left.
};

// What lies in a folder; changes nothing. FAILED_PRECONDITION: a snapshot of another format.
absl::StatusOr<SnapshotList> ListSnapshots(FileSystem& fs, const std::string& dir);

// Errors: the file system's; then there is no new snapshot, or one that may vanish in a crash.
absl::StatusOr<SnapshotFile> WriteSnapshot(FileSystem& fs, const std::string& dir, int fragment,
                                           const FragmentState& state);

// Loads the arrays, version, commit_sequence and digest. DATA_LOSS: damaged, or not of this
// fragment and size; names the offset; `state` is then unspecified.
absl::Status ReadSnapshot(FileSystem& fs, const SnapshotFile& snapshot, FragmentState* state);
// The same from a file that is open and may have lost its name.
absl::Status ReadSnapshot(const File& file, const SnapshotFile& snapshot, FragmentState* state);

}  // namespace longhaul
