// Functions that combine operations of FileSystem. Errors are those of the operations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// No file system allows longer names.
inline constexpr size_t kFileNameBytesMax = 255;

// Whether a name from outside can only be that of a file directly in a folder: no slash, no dot at
// its beginning, at most 255 bytes, no control characters.
bool IsPlainFileName(absl::string_view name);

std::string JoinPath(absl::string_view folder, absl::string_view name);
// The folder of `path`, or "." if it names none.
std::string ParentOf(absl::string_view path);
// "a" for "a/" and "a//"; "/" stays.
std::string WithoutTrailingSlashes(absl::string_view path);

// Makes the folder and its parents, and makes their names durable.
absl::Status CreateDirs(FileSystem& fs, const std::string& path);

// Reads a whole file. DATA_LOSS: it has more than `bytes_max`.
absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, int64_t bytes_max);

// Writes a file with these bytes to `path`, durably and atomically: after a crash there is either
// the old file or the new one. Uses `path`.tmp. Only one writer for each path at a time.
absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, absl::string_view bytes);

// For a file that is written from its start. Hints that the spans of 8 MiB that end in (before,
// after] should be written to the device while more bytes come (File::WriteBehind).
void WriteBehindWholeSpans(File& file, int64_t before, int64_t after);

// The names in a folder, as FileSystem::List gives them; none if the folder is not there.
absl::StatusOr<std::vector<std::string>> ListIfThere(FileSystem& fs, const std::string& path);

// Removes a folder with its files. It may not contain folders. OK if it does not exist. Not durable
// until the folder above is synced.
absl::Status RemoveFolder(FileSystem& fs, const std::string& path);

}  // namespace longhaul
