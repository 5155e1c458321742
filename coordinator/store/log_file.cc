#include "coordinator/store/log_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/fatal.h"
#include "coordinator/store/log_format.h"

namespace longhaul {
namespace {

absl::Status FinalIfFailed(const absl::Status& synced) {
  const bool tried = !absl::IsUnavailable(synced);
  return synced.ok() || !tried ? synced : MarkFatal(synced);
}

}  // namespace

absl::StatusOr<SpareFile> MakeLogFile(FileSystem& fs, const std::string& dir, int64_t number,
                                      int64_t bytes, uint64_t salt) {
  const std::string path = JoinPath(dir, LogFileName(number));
  const std::string temporary = absl::StrCat(path, ".tmp");
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<File>> {
    LH_ASSIGN_OR_RETURN(std::shared_ptr<File> file, fs.Create(temporary));
    LH_RETURN_IF_ERROR(file->Preallocate(bytes));
    LH_RETURN_IF_ERROR(file->WriteAt(0, EncodeLogFileHeader({number, bytes}, salt)));
    LH_RETURN_IF_ERROR(FinalIfFailed(file->SyncData()));
    LH_RETURN_IF_ERROR(fs.Rename(temporary, path));
    return file;
  };
  absl::StatusOr<std::shared_ptr<File>> file = make();
  if (!file.ok()) {
    // Gives the space back. If this fails, recovery removes the file.
    (void)fs.Remove(temporary);
    return file.status();
  }
  LH_RETURN_IF_ERROR(FinalIfFailed(fs.SyncDir(dir)));
  return SpareFile{number, *std::move(file), bytes};
}

absl::StatusOr<SpareFile> GrowLogFile(const SpareFile& spare, int64_t bytes, uint64_t salt) {
  LH_RETURN_IF_ERROR(spare.file->Preallocate(bytes));
  // The file must have its new size before the header names it.
  LH_RETURN_IF_ERROR(FinalIfFailed(spare.file->SyncData()));
  LH_RETURN_IF_ERROR(spare.file->WriteAt(0, EncodeLogFileHeader({spare.number, bytes}, salt)));
  LH_RETURN_IF_ERROR(FinalIfFailed(spare.file->SyncData()));
  return SpareFile{spare.number, spare.file, bytes};
}

absl::Status EndLogFile(File& file, int64_t number, int64_t bytes, uint64_t salt) {
  LH_RETURN_IF_ERROR(file.WriteAt(0, EncodeLogFileHeader({number, bytes}, salt)));
  LH_RETURN_IF_ERROR(FinalIfFailed(file.SyncData()));
  return file.Truncate(bytes);
}

}  // namespace longhaul
