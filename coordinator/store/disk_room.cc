#include "coordinator/store/disk_room.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/bytes_text.h"

namespace longhaul {

absl::Status CheckDiskRoom(FileSystem& fs, const std::string& folder, absl::string_view what,
                           int64_t bytes, int64_t reserve) {
  const absl::StatusOr<int64_t> free = fs.FreeBytes(folder);
  if (!free.ok() || bytes <= *free - std::min(*free, reserve)) return absl::OkStatus();
  std::string message =
      absl::StrCat(what, " needs ", BytesText(bytes), " of the coordinator's disk, of which ",
                   BytesText(*free), " are free");
  if (reserve > 0) absl::StrAppend(&message, "; ", BytesText(reserve), " stay free for jobs");
  return absl::ResourceExhaustedError(message);
}

}  // namespace longhaul
