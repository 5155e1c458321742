#include "worker/lm/result_folder.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"

namespace longhaul {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

}  // namespace

absl::Status ResultFile::Append(absl::string_view bytes) {
  waiting_.append(bytes.data(), bytes.size());
  return waiting_.size() < kWriteBytes ? absl::OkStatus() : Flush();
}

absl::Status ResultFile::Finish() {
  LH_RETURN_IF_ERROR(Flush());
  return file_->SyncData();
}

absl::Status ResultFile::Flush() {
  LH_RETURN_IF_ERROR(file_->Append(waiting_));
  waiting_.clear();
  return absl::OkStatus();
}

ResultFolder::ResultFolder(std::string path)
    : fs_(MakePosixFileSystem()), path_(std::move(path)), temporary_(path_ + ".tmp") {}

absl::StatusOr<std::unique_ptr<ResultFolder>> ResultFolder::Create(const std::string& out) {
  const std::string path = WithoutTrailingSlashes(out);
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return WithHint(absl::AlreadyExistsError(absl::StrCat(path, " exists")),
                    "give another folder, or remove it first");
  }
  std::unique_ptr<ResultFolder> folder(new ResultFolder(path));
  LH_RETURN_IF_ERROR(RemoveFolder(*folder->fs_, folder->temporary_));
  LH_RETURN_IF_ERROR(CreateDirs(*folder->fs_, folder->temporary_));
  return folder;
}

// After Finish nothing has the temporary name.
ResultFolder::~ResultFolder() { RemoveFolder(*fs_, temporary_).IgnoreError(); }

std::string ResultFolder::PathOf(const std::string& name) const {
  return JoinPath(temporary_, name);
}

absl::StatusOr<ResultFile*> ResultFolder::Add(const std::string& name) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs_->Create(PathOf(name)));
  names_.push_back(name);
  return files_.emplace_back(std::make_unique<ResultFile>(std::move(file))).get();
}

absl::StatusOr<ResultFile*> ResultFolder::AddArray(const std::string& name, NpyType type,
                                                   const std::vector<int64_t>& shape) {
  LH_ASSIGN_OR_RETURN(ResultFile* const file, Add(name));
  LH_RETURN_IF_ERROR(file->Append(WriteNpyHeader(type, shape)));
  return file;
}

absl::Status ResultFolder::Finish() {
  for (const auto& file : files_) LH_RETURN_IF_ERROR(file->Finish());
  LH_RETURN_IF_ERROR(fs_->SyncDir(temporary_));
  return fs_->Rename(temporary_, path_);
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace longhaul
