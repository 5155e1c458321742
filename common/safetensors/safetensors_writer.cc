#include "common/safetensors/safetensors_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

constexpr int64_t kWriteBehindBytes = 8 << 20;

std::string Temporary(const std::string& path) { return absl::StrCat(path, ".tmp"); }

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(FileSystem* fs, std::string path,
                                                            const SafetensorsHeader& header) {
  const std::string json = WriteSafetensorsHeader(header);
  if (static_cast<int64_t>(json.size()) > kSafetensorsHeaderMax)
    return absl::InvalidArgumentError(absl::StrCat(path, ": too many tensors for one file"));
  int64_t end = 8 + static_cast<int64_t>(json.size());
  for (const StoredTensor& tensor : header.tensors) end += tensor.bytes();
  LH_ASSIGN_OR_RETURN(std::unique_ptr<File> file, fs->Create(Temporary(path)));
  const uint64_t size = json.size();
  const std::string begin =
      absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&size), 8), json);
  SafetensorsWriter writer(fs, std::move(path), std::move(file), 0, end);
  LH_RETURN_IF_ERROR(writer.Append(begin));
  return writer;
}

SafetensorsWriter::SafetensorsWriter(FileSystem* fs, std::string path, std::unique_ptr<File> file,
                                     int64_t begin, int64_t end)
    : fs_(fs), path_(std::move(path)), file_(std::move(file)), at_(begin), end_(end) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  (void)fs_->Remove(Temporary(path_));
}

absl::Status SafetensorsWriter::Append(absl::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > end_ - at_)
    return absl::FailedPreconditionError(absl::StrCat(path_, ": more bytes than its header says"));
  LH_RETURN_IF_ERROR(file_->WriteAt(at_, bytes));
  const int64_t before = at_;
  at_ += static_cast<int64_t>(bytes.size());
  const int64_t from = before / kWriteBehindBytes, to = at_ / kWriteBehindBytes;
  if (to > from) file_->WriteBehind(from * kWriteBehindBytes, (to - from) * kWriteBehindBytes);
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (at_ != end_)
    return absl::FailedPreconditionError(absl::StrCat(path_, ": fewer bytes than its header says"));
  LH_RETURN_IF_ERROR(file_->SyncData());
  LH_RETURN_IF_ERROR(fs_->Rename(Temporary(path_), path_));
  file_.reset();
  return fs_->SyncDir(FolderOf(path_));
}

}  // namespace longhaul
