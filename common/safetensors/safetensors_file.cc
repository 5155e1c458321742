#include "common/safetensors/safetensors_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const absl::Span<const uint8_t> bytes = file.bytes();
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes.size(), " bytes are not a safetensors file"));
  }
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size > uint64_t{kSafetensorsHeaderMax} || size > bytes.size() - sizeof(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a header of ", size, " bytes does not fit the file, or is above ",
                     kSafetensorsHeaderMax, ": no safetensors file, or cut off"));
  }
  const absl::string_view json(reinterpret_cast<const char*>(bytes.data()) + sizeof(size), size);
  const absl::Span<const uint8_t> data = bytes.subspan(sizeof(size) + size);
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(json, static_cast<int64_t>(data.size()));
  if (!header.ok())
    return absl::Status(header.status().code(),
                        absl::StrCat(path, ": ", header.status().message()));
  return SafetensorsFile(path, std::move(file), data, *std::move(header));
}

SafetensorsFile::SafetensorsFile(std::string path, MappedFile file, absl::Span<const uint8_t> data,
                                 SafetensorsHeader header)
    : path_(std::move(path)), file_(std::move(file)), data_(data), header_(std::move(header)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const StoredTensor* SafetensorsFile::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

}  // namespace longhaul
