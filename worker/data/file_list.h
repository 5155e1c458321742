// The files that a path of a job's data stands for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul {

// Of a file, itself. Of a folder, the regular files directly in it; of a pattern with *, ? or [...]
// (glob(7)) that is no file's name, those that match: sorted by name, and only those whose name ends
// with one of `endings` (none: all). NOT_FOUND: nothing has this path or matches. INVALID_ARGUMENT:
// a folder has no such file. Else the system's error. Every message names the path.
absl::StatusOr<std::vector<std::string>> ListDataFiles(
    const std::string& path, absl::Span<const absl::string_view> endings = {});

}  // namespace longhaul
