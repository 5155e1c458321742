// A folder for temporary files that goes with its object, and also when a signal ends the program.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace longhaul {

// From now on SIGINT, SIGTERM and SIGHUP remove the folder that exists, and then end the process as
// usual. A signal that is ignored stays ignored. Call it before any other thread exists.
void EndOnStopSignals();

// At most one exists at a time. Not thread-safe. Its methods block on the disk.
class WorkFolder {
 public:
  // In TMPDIR, else /tmp. The system's error if it cannot be made.
  static absl::StatusOr<WorkFolder> Make();
  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder();
  const std::string& path() const { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // Empty: moved from.
};

}  // namespace longhaul
