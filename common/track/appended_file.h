// A file that grows by whole pieces. It is open only during calls, so that a program may have many
// of them. Externally synchronised.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/io/filesystem.h"

namespace longhaul {

class AppendedFile {
 public:
  // `fs` outlives it.
  AppendedFile(FileSystem* fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Only the first `bytes` of the file are good. The next append overwrites the rest.
  void SetWhole(int64_t bytes) {
    size_ = bytes;
    torn_ = true;
  }
  // After an error nothing was appended, and the call may be repeated.
  absl::Status Append(absl::string_view bytes) {
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs_->Open(path_));
    if (torn_) LH_RETURN_IF_ERROR(file->Truncate(size_));
    torn_ = true;
    LH_RETURN_IF_ERROR(file->WriteAt(size_, bytes));
    size_ += static_cast<int64_t>(bytes.size());
    torn_ = false;
    return absl::OkStatus();
  }

 private:
  FileSystem* fs_;
  std::string path_;
  int64_t size_ = 0;
  bool torn_ = false;
};

}  // namespace longhaul
