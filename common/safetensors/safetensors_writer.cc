#include "common/safetensors/safetensors_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(FileSystem* fs, std::string path,
                                                            const SafetensorsHeader& header) {
  const std::string json = WriteSafetensorsHeader(header);
  if (static_cast<int64_t>(json.size()) > kSafetensorsHeaderMax)
    return absl::InvalidArgumentError(absl::StrCat(path, ": too many tensors for one file"));
  int64_t end = 8 + static_cast<int64_t>(json.size());
  for (const StoredTensor& tensor : header.tensors) end += tensor.bytes();
  LH_ASSIGN_OR_RETURN(NewFile file, NewFile::Create(fs, std::move(path)));
  const uint64_t size = json.size();
  const std::string begin =
      absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&size), 8), json);
  SafetensorsWriter writer(std::move(file), end);
  LH_RETURN_IF_ERROR(writer.Append(begin));
  return writer;
}

absl::Status SafetensorsWriter::Append(absl::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > end_ - file_.bytes()) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_.path(), ": more bytes than its header says"));
  }
  return file_.Append(bytes);
}

absl::Status SafetensorsWriter::Finish() {
  if (file_.bytes() != end_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_.path(), ": fewer bytes than its header says"));
  }
  return file_.Publish();
}

}  // namespace longhaul
