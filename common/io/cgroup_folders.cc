#include "common/io/cgroup_folders.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/io/system_file.h"

namespace longhaul {

// /proc/self/cgroup has lines "NUMBER:CONTROLLERS:PATH"; version 2's has no controllers.
std::vector<std::string> CgroupFolders(absl::string_view controller, const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::vector<std::string> folders;
  const auto add = [&](const std::string& mount, absl::string_view path) {
    // Inside a container's own namespace the path may not be there, or begin with "..": then the
    // root is the container's.
    const bool within = absl::StartsWith(path, "/") && !absl::StrContains(path, "..");
    for (; within && !path.empty() && path != "/"; path = path.substr(0, path.rfind('/')))
      folders.push_back(absl::StrCat(mount, path));
    folders.push_back(mount);
  };
  const std::string lines = ReadSystemFile(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() < 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (fields[1].empty()) {
      add(mounts, fields[2]);
    } else if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      add(absl::StrCat(mounts, "/", controller), fields[2]);
    }
  }
  if (folders.empty()) folders.push_back(mounts);
  return folders;
}

}  // namespace longhaul
