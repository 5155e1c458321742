// Lists the files of a path in a job's data.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul {

// A file stands for itself. A folder stands for the regular files directly in it, and a pattern
// with *, ? or [...] (glob(7)), which is no file's name, for the files that match; both sorted by
// name, and only with one of `endings` at the end of the name (no endings: all). Side files of
// other systems (IsSideFile) are passed over. NOT_FOUND: nothing has this path or matches; or one
// of the files is a link whose target does not exist. INVALID_ARGUMENT: a folder has no such file.
// Others: the system's error. Every message names the path. `passed_over`, if not null, gets the
// files that were left out for their names. Thread-safe; blocks on the disk.
absl::StatusOr<std::vector<std::string>> ListDataFiles(
    const std::string& path, absl::Span<const absl::string_view> endings = {},
    std::vector<std::string>* passed_over = nullptr);

}  // namespace longhaul
