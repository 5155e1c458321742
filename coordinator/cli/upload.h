// Sends a folder of this machine to the coordinator, for a job to begin with: the files that a job
// needs of a checkpoint's or a Hugging Face model's folder, and nothing else of it. Links are
// followed. The folder must not change while it is read and sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/folder_files.h"
#include "common/io/filesystem.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

// Identifies a file without its bytes. A different or changed file has other values.
struct SeenFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t inode = 0;
  int64_t changed_ns = 0;
  friend bool operator==(const SeenFile&, const SeenFile&) = default;
};

// The files that a job needs of this folder. Errors: those of FilesNeededOf; INVALID_ARGUMENT: one
// is not a regular file; NOT_FOUND: one is missing. The message names it.
absl::StatusOr<std::vector<SeenFile>> LookAtFolder(FileSystem& fs, const std::string& folder);

struct FolderToSend {
  std::string path;
  std::vector<SeenFile> seen;
  // In the same order, with their digests.
  std::vector<FolderFile> files;
  // Their digest.
  std::string upload;

  int64_t bytes() const;
};
// Reads all of it, with progress. ABORTED: a file changed meanwhile.
absl::StatusOr<FolderToSend> ReadFolder(FileSystem& fs, const std::string& folder,
                                        const Environment& environment);

struct Uploaded {
  // Of all files.
  int64_t bytes = 0;
  // By this call.
  int64_t sent = 0;
};
// Blocks. What the coordinator has of it is not sent. Once the server has answered, it is called
// again after UNAVAILABLE, for at most kSilentMax without a byte taken.
//   ABORTED      a file changed since it was read
//   DATA_LOSS    a file came damaged, twice
//   others       the server's (upload.proto), or of reading the files
absl::StatusOr<Uploaded> Upload(const FolderToSend& folder, Client& client, FileSystem& fs,
                                const Environment& environment);

// What to do about an error of ReadFolder or Upload that arose on this machine. Empty: it came from
// the server.
std::string HintOfUpload(const absl::Status& status);

}  // namespace longhaul::cli
