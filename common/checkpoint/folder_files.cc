#include "common/checkpoint/folder_files.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/reader.h"
#include "common/hf/hf_model.h"
#include "common/hf/hf_parameters.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"

namespace longhaul {
namespace {

constexpr char kConfigFile[] = "config.json";

absl::Status Malformed(absl::string_view what) { return absl::InvalidArgumentError(what); }

}  // namespace

absl::Status CheckFolderFiles(absl::Span<const FolderFile> files) {
  if (files.empty()) return Malformed("names no files");
  if (files.size() > kFolderFilesMax)
    return Malformed(absl::StrCat("names more than ", kFolderFilesMax, " files"));
  std::set<absl::string_view> names;
  int64_t sum = 0;
  for (const FolderFile& file : files) {
    const std::string shown = absl::StrCat("'", ClipUtf8(file.name, kFileNameBytesMax), "'");
    if (!IsPlainFileName(file.name)) return Malformed(shown + " is not a plain file name");
    if (!names.insert(file.name).second) return Malformed(shown + " is listed twice");
    const std::optional<int64_t> total = CheckedAdd(sum, file.bytes);
    if (file.bytes < 0 || !total.has_value()) return Malformed(shown + " has an impossible size");
    sum = *total;
    if (!IsSha256Hex(file.sha256)) return Malformed(shown + " has no SHA-256 in hexadecimal");
  }
  if (names.contains(kManifestFile) || names.contains(kConfigFile)) return absl::OkStatus();
  return Malformed(
      "has neither a checkpoint's manifest.json nor a Hugging Face model's config.json");
}

std::string ListOfFiles(std::vector<FolderFile> files) {
  std::sort(files.begin(), files.end(),
            [](const FolderFile& a, const FolderFile& b) { return a.name < b.name; });
  std::string list;
  for (const FolderFile& file : files)
    absl::StrAppend(&list, file.name, "\t", file.bytes, "\t", file.sha256, "\n");
  return list;
}

std::string DigestOfFiles(std::vector<FolderFile> files) {
  return Sha256Hex(ListOfFiles(std::move(files)));
}

absl::StatusOr<std::vector<FolderFile>> ParseListOfFiles(absl::string_view list) {
  std::vector<FolderFile> files;
  for (const absl::string_view line : absl::StrSplit(list, '\n')) {
    if (line.empty()) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, '\t');
    FolderFile& file = files.emplace_back();
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &file.bytes))
      return Malformed("is not a list of files");
    file.name = std::string(words[0]);
    file.sha256 = std::string(words[2]);
    if (files.size() > kFolderFilesMax) break;
  }
  LH_RETURN_IF_ERROR(CheckFolderFiles(files));
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesNeededOf(FileSystem& fs, const std::string& folder) {
  std::vector<std::string> names;
  if (IsHfFolder(folder)) {
    LH_ASSIGN_OR_RETURN(names, HfFilesOf(folder));
  } else {
    LH_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(fs, folder));
    names.push_back(kManifestFile);
    for (const v1::CheckpointFragment& fragment : manifest.fragments())
      names.push_back(fragment.file());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace longhaul
