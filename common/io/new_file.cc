#include "common/io/new_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

std::string TemporaryOf(const std::string& path) { return absl::StrCat(path, ".tmp"); }

}  // namespace

absl::StatusOr<NewFile> NewFile::Create(FileSystem* fs, std::string path) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs->Create(TemporaryOf(path)));
  return NewFile(fs, std::move(path), std::move(file));
}

NewFile::NewFile(FileSystem* fs, std::string path, std::unique_ptr<File> file)
    : fs_(fs), path_(std::move(path)), file_(std::move(file)) {}

NewFile::~NewFile() {
  if (file_ == nullptr) return;
  file_.reset();
  (void)fs_->Remove(TemporaryOf(path_));
}

absl::Status NewFile::Append(absl::string_view bytes) {
  LH_RETURN_IF_ERROR(file_->WriteAt(bytes_, bytes));
  bytes_ += static_cast<int64_t>(bytes.size());
  WriteBehindWholeSpans(*file_, bytes_ - static_cast<int64_t>(bytes.size()), bytes_);
  return absl::OkStatus();
}

absl::Status NewFile::Publish() {
  LH_RETURN_IF_ERROR(file_->SyncData());
  LH_RETURN_IF_ERROR(fs_->Rename(TemporaryOf(path_), path_));
  file_.reset();
  return fs_->SyncDir(ParentOf(path_));
}

}  // namespace longhaul
