// A file that only takes space. When the disk is full it is given up, so that the commands that
// free space (cancel, pause, delete) can be stored.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/io/file_util.h"
#include "common/io/filesystem.h"

namespace longhaul {

inline std::string BallastPath(const std::string& data_dir) {
  return JoinPath(data_dir, "ballast");
}

// Externally synchronised; blocks on the disk.
class Ballast {
 public:
  static constexpr int64_t kBytes = int64_t{4} << 20;

  // `fs` outlives it. The file may be there from an earlier start.
  Ballast(FileSystem* fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  // Writes the file if it is not there. RESOURCE_EXHAUSTED: the disk is full.
  absl::Status Fill();
  // Returns whether there was a file, which is removed now.
  bool GiveUp();

 private:
  FileSystem* const fs_;
  const std::string path_;
  // It is known to be there.
  bool filled_ = false;
};

}  // namespace longhaul
