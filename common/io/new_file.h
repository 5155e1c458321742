// Writes a file that gets its name only when it is complete: its bytes go to `path`.tmp and are
// synced, and then the file is renamed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// One writer for each path at a time. Not thread-safe; blocks on the disk. Errors: those of the
// file system.
class NewFile {
 public:
  // Makes `path`.tmp, and replaces one that a crash left. `fs` outlives the object.
  static absl::StatusOr<NewFile> Create(FileSystem* fs, std::string path);
  NewFile(NewFile&&) = default;
  // Removes the temporary file if Publish was not called.
  ~NewFile();

  // Writes at the end. The system begins to write the bytes to the device.
  absl::Status Append(absl::string_view bytes);
  // Makes the bytes durable under the temporary name. For several files that are then published
  // together.
  absl::Status Sync() { return file_->SyncData(); }
  // Makes the bytes durable and gives the file its name, durably, in place of an earlier file. Must
  // be the last call.
  absl::Status Publish();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }

 private:
  NewFile(FileSystem* fs, std::string path, std::unique_ptr<File> file);

  FileSystem* fs_;
  std::string path_;
  // Null after Publish or a move.
  std::unique_ptr<File> file_;
  int64_t bytes_ = 0;
};

}  // namespace longhaul
