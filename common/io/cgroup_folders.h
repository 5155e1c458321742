// Where the limits of this process's cgroup can be read. Thread-safe; reads files of the system.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul {

// The folders of the cgroup, and of those around it, whose limits count as well: from the inside to
// the root of the mount. `controller`: "cpu" or "memory", which has a hierarchy of its own with
// version 1 of cgroups. `root`: the path of the system's root, for tests.
std::vector<std::string> CgroupFolders(absl::string_view controller, const std::string& root = "");

}  // namespace longhaul
