#include "common/safetensors/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_content.h"

namespace longhaul {

namespace {

constexpr int64_t kReadElements = 1 << 18;

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
  uint8_t bytes[sizeof(uint64_t)];
  uint64_t size = 0;
  if (file.size() < int64_t{sizeof(size)}) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", file.size(), " bytes are not a safetensors file"));
  }
  std::string head(std::min<int64_t>(file.size(), kContentHeadBytes), '\0');
  LH_RETURN_IF_ERROR(file.Read(0, {reinterpret_cast<uint8_t*>(head.data()), head.size()}));
  LH_RETURN_IF_ERROR(CheckPresent(path, head));
  LH_RETURN_IF_ERROR(file.Read(0, bytes));
  std::memcpy(&size, bytes, sizeof(size));
  if (size > uint64_t{kSafetensorsHeaderMax} || size > file.size() - sizeof(size)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a header of ", size, " bytes does not fit the file, or is above ",
                     kSafetensorsHeaderMax, ": no safetensors file, or cut off"));
  }
  std::string json(size, '\0');
  LH_RETURN_IF_ERROR(
      file.Read(sizeof(size), {reinterpret_cast<uint8_t*>(json.data()), json.size()}));
  const auto data = static_cast<int64_t>(sizeof(size) + size);
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(json, file.size() - data);
  if (!header.ok())
    return absl::Status(header.status().code(),
                        absl::StrCat(path, ": ", header.status().message()));
  return SafetensorsFile(std::move(file), data, *std::move(header));
}

absl::Status SafetensorsFile::Read(const StoredTensor& tensor, int64_t first,
                                   absl::Span<float> out) const {
  const int64_t width = longhaul::BytesOf(tensor.type);
  std::vector<uint8_t> bytes(std::min<int64_t>(out.size(), kReadElements) * width);
  while (!out.empty()) {
    const absl::Span<float> values = out.subspan(0, kReadElements);
    const auto read = absl::MakeSpan(bytes).subspan(0, values.size() * width);
    LH_RETURN_IF_ERROR(ReadBytes(tensor, first * width, read));
    ToFloat(tensor.type, read.data(), values);
    first += static_cast<int64_t>(values.size());
    out.remove_prefix(values.size());
  }
  return absl::OkStatus();
}

}  // namespace longhaul
