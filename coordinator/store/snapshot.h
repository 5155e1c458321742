// Snapshots: the whole state of one fragment at one version, as a file. A new file is written and
// synced, then renamed, then its folder is synced. Digests tell a damaged snapshot from a good one.
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
  // The sequence of the frame that committed the version.
  uint64_t commit_sequence = 0;
};

struct DamagedSnapshot {
  std::string path;
  // A DATA_LOSS that names file and offset.
  absl::Status status;
};

struct SnapshotList {
  // Snapshots with a good header, by fragment, then by version.
  std::vector<SnapshotFile> files;
  std::vector<DamagedSnapshot> damaged;
  // Paths of files that an interrupted writer left.
  std::vector<std::string> temporary;
};

// Lists the snapshots of a folder. Changes nothing. FAILED_PRECONDITION: a snapshot has another
// format.
absl::StatusOr<SnapshotList> ListSnapshots(FileSystem& fs, const std::string& dir);

// Errors: those of the file system. After an error there is no new snapshot, or one that may vanish
// in a crash.
absl::StatusOr<SnapshotFile> WriteSnapshot(FileSystem& fs, const std::string& dir, int fragment,
                                           const FragmentState& state);

// Loads the arrays, version, commit_sequence and digest. DATA_LOSS: the file is damaged, or is not
// of this fragment and size. The error names the offset, and `state` is then unspecified.
absl::Status ReadSnapshot(FileSystem& fs, const SnapshotFile& snapshot, FragmentState* state);
// Reads from a file that is open and may have lost its name.
absl::Status ReadSnapshot(const File& file, const SnapshotFile& snapshot, FragmentState* state);

}  // namespace longhaul
