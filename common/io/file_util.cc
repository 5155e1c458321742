#include "common/io/file_util.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/new_file.h"

namespace longhaul {

bool IsPlainFileName(absl::string_view name) {
  return !name.empty() && name.size() <= kFileNameBytesMax && name[0] != '.' &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return c == '/' || c == '\\' || absl::ascii_iscntrl(c); });
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(folder, "/", name);
}

std::string ParentOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

absl::Status CreateDirs(FileSystem& fs, const std::string& path) {
  if (path.empty() || path == "/" || path == ".") return absl::OkStatus();
  const std::string parent = ParentOf(path);
  if (fs.List(path).ok()) {
    // An earlier call may have failed before the folder's name was durable. A folder that may not
    // be read was not made by us.
    const absl::Status synced = fs.SyncDir(parent);
    return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;
  }
  LH_RETURN_IF_ERROR(CreateDirs(fs, parent));
  LH_RETURN_IF_ERROR(fs.CreateDir(path));
  return fs.SyncDir(parent);
}

absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, int64_t bytes_max) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path));
  LH_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  if (size > bytes_max) {
    return absl::DataLossError(absl::StrCat(path, " has ", size, " bytes, more than ", bytes_max));
  }
  std::string bytes(size, '\0');
  LH_RETURN_IF_ERROR(file->ReadExactly(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, absl::string_view bytes) {
  LH_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(&fs, path));
  LH_RETURN_IF_ERROR(file.Append(bytes));
  return file.Publish();
}

void WriteBehindWholeSpans(File& file, int64_t before, int64_t after) {
  constexpr int64_t kSpan = 8 << 20;
  const int64_t from = before / kSpan, to = after / kSpan;
  if (to > from) file.WriteBehind(from * kSpan, (to - from) * kSpan);
}

absl::StatusOr<std::vector<std::string>> ListIfThere(FileSystem& fs, const std::string& path) {
  absl::StatusOr<std::vector<std::string>> names = fs.List(path);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

absl::Status RemoveFolder(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = fs.List(path);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  LH_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) LH_RETURN_IF_ERROR(fs.Remove(JoinPath(path, name)));
  return fs.Remove(path);
}

}  // namespace longhaul
