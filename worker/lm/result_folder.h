// A folder of results that appears whole or not at all: its files are written below a temporary
// name. Not thread-safe; blocks on the disk. Errors: those of the file system.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/graph/npy.h"
#include "common/io/filesystem.h"

namespace longhaul {

class ResultFile {
 public:
  explicit ResultFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  absl::Status Append(absl::string_view bytes);
  template <typename T>
  absl::Status Append(absl::Span<const T> values) {
    return Append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  // All that was appended is in the file from then on, durably.
  absl::Status Finish();

 private:
  absl::Status Flush();

  std::unique_ptr<File> file_;
  std::string waiting_;
};

class ResultFolder {
 public:
  // ALREADY_EXISTS: something has the name; with a hint. Replaces what a crash left.
  static absl::StatusOr<std::unique_ptr<ResultFolder>> Create(const std::string& out);
  // Removes everything, unless Finish was called.
  ~ResultFolder();

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }

  // They belong to the folder.
  absl::StatusOr<ResultFile*> Add(const std::string& name);
  absl::StatusOr<ResultFile*> AddArray(const std::string& name, NpyType type,
                                       const std::vector<int64_t>& shape);
  // Where a file is until Finish.
  std::string PathOf(const std::string& name) const;
  // Gives the folder its name.
  absl::Status Finish();

 private:
  explicit ResultFolder(std::string path);

  const std::unique_ptr<FileSystem> fs_;
  const std::string path_, temporary_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<ResultFile>> files_;
};

// A cell of CSV, as RFC 4180.
std::string CsvCell(const std::string& text);

}  // namespace longhaul
