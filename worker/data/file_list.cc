#include "worker/data/file_list.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/io/file_content.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

bool HasEnding(const std::string& name, absl::Span<const absl::string_view> endings) {
  if (endings.empty()) return true;
  return std::any_of(endings.begin(), endings.end(),
                     [&](absl::string_view ending) { return absl::EndsWith(name, ending); });
}

// A site whose files stayed elsewhere would train on the rest.
absl::Status CheckLink(const std::string& path) {
  const std::string link = DanglingLink(path);
  if (link.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(path, ": ", link));
}

absl::StatusOr<std::vector<std::string>> FilesOfFolder(const std::string& path,
                                                       absl::Span<const absl::string_view> endings,
                                                       std::vector<std::string>* passed_over) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string file = entry->path().string();
    std::error_code ignored;
    if (IsSideFile(entry->path().filename().string()) || !HasEnding(file, endings)) {
      if (passed_over != nullptr && entry->is_regular_file(ignored)) passed_over->push_back(file);
      continue;
    }
    if (entry->is_regular_file(ignored)) files.push_back(file);
    LH_RETURN_IF_ERROR(CheckLink(file));
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", path));
  std::sort(files.begin(), files.end());
  if (!files.empty()) return files;
  return absl::InvalidArgumentError(absl::StrCat(path, ": this folder directly contains no file",
                                                 endings.empty() ? "" : " whose name ends with ",
                                                 absl::StrJoin(endings, " or ")));
}

absl::StatusOr<std::vector<std::string>> FilesOfPattern(const std::string& pattern,
                                                        absl::Span<const absl::string_view> endings,
                                                        std::vector<std::string>* passed_over) {
  glob_t found = {};
  const int code = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  const absl::Cleanup release = [&] { globfree(&found); };
  if (code == GLOB_NOSPACE) return absl::ResourceExhaustedError(absl::StrCat(pattern, ": memory"));
  if (code == GLOB_ABORTED)
    return absl::PermissionDeniedError(absl::StrCat(pattern, ": a folder cannot be listed"));
  std::vector<std::string> files;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    std::error_code ignored;
    const std::string file = found.gl_pathv[i];
    // A pattern that begins with a dot asks for such names.
    const bool asked = absl::StartsWith(fs::path(pattern).filename().string(), ".");
    if (!HasEnding(file, endings) || (!asked && IsSideFile(fs::path(file).filename().string()))) {
      if (passed_over != nullptr && fs::is_regular_file(file, ignored))
        passed_over->push_back(file);
      continue;
    }
    if (fs::is_regular_file(file, ignored)) files.push_back(file);
    LH_RETURN_IF_ERROR(CheckLink(file));
  }
  std::sort(files.begin(), files.end());
  if (!files.empty()) return files;
  return absl::NotFoundError(absl::StrCat(pattern, ": no file matches",
                                          endings.empty() ? "" : " whose name ends with ",
                                          absl::StrJoin(endings, " or ")));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListDataFiles(const std::string& path,
                                                       absl::Span<const absl::string_view> endings,
                                                       std::vector<std::string>* passed_over) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return FilesOfFolder(path, endings, passed_over);
  if (status.type() != fs::file_type::not_found) return std::vector<std::string>{path};
  if (path.find_first_of("*?[") != std::string::npos)
    return FilesOfPattern(path, endings, passed_over);
  LH_RETURN_IF_ERROR(CheckLink(path));
  return absl::NotFoundError(absl::StrCat(path, ": no such file or folder on this machine"));
}

}  // namespace longhaul
