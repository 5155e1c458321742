#include "common/io/filesystem.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::Status File::Append(absl::string_view data) {
  LH_ASSIGN_OR_RETURN(const int64_t size, Size());
  return WriteAt(size, data);
}

absl::Status File::ReadExactly(int64_t offset, absl::Span<char> out) const {
  LH_ASSIGN_OR_RETURN(const int64_t read, ReadAt(offset, out));
  if (read == static_cast<int64_t>(out.size())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("file ends at ", offset + read, ", expected ", out.size(),
                                          " bytes at ", offset));
}

}  // namespace longhaul
