// What is composed of the file-system seam's operations. Errors are those of the operations.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

std::string JoinPath(absl::string_view folder, absl::string_view name);

// Makes the folder and those above it, and makes their names durable.
absl::Status CreateDirs(FileSystem& fs, const std::string& path);

// A whole file. RESOURCE_EXHAUSTED: it has more than `bytes_max`.
absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, int64_t bytes_max);

// Puts a file with these bytes at `path`, durably: after a crash there is the old file or the new
// one, whole. Uses `path`.tmp; one writer a path at a time.
absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, absl::string_view bytes);

// Removes a folder with the files in it (no folders). OK if there is none. Not durable until the
// folder above is synced.
absl::Status RemoveFolder(FileSystem& fs, const std::string& path);

}  // namespace longhaul
