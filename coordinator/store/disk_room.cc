#include "coordinator/store/disk_room.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul {

std::string GibText(int64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

absl::Status CheckDiskRoom(FileSystem& fs, const std::string& folder, absl::string_view what,
                           int64_t bytes, int64_t reserve) {
  const absl::StatusOr<int64_t> free = fs.FreeBytes(folder);
  if (!free.ok() || bytes <= *free - std::min(*free, reserve)) return absl::OkStatus();
  std::string message =
      absl::StrCat(what, " needs ", GibText(bytes), " of the coordinator's disk, of which ",
                   GibText(*free), " are free");
  if (reserve > 0) absl::StrAppend(&message, "; ", GibText(reserve), " stay free for jobs");
  return absl::ResourceExhaustedError(message);
}

}  // namespace longhaul
