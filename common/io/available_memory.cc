#include "common/io/available_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/io/cgroup_folders.h"
#include "common/io/system_file.h"

namespace longhaul {
namespace {

// The number in a file. Nothing if there is no such file, or it says "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(ReadSystemFile(path), &number)) return std::nullopt;
  return number;
}

// The part of a cgroup's memory that the system gives back before it refuses more: mostly pages of
// files that were read.
int64_t Reclaimable(const std::string& cgroup) {
  int64_t sum = 0;
  for (const absl::string_view line :
       absl::StrSplit(ReadSystemFile(cgroup + "/memory.stat"), '\n')) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t bytes = 0;
    const bool counts = words.first == "inactive_file" || words.first == "active_file" ||
                        words.first == "slab_reclaimable";
    if (counts && absl::SimpleAtoi(words.second, &bytes)) sum += bytes;
  }
  return sum;
}

// The first of these files that there is; version 1 of cgroups has the other names.
std::optional<int64_t> LimitOf(const std::string& cgroup) {
  const auto limit = ReadNumber(cgroup + "/memory.max");
  return limit ? limit : ReadNumber(cgroup + "/memory.limit_in_bytes");
}
std::optional<int64_t> UseOf(const std::string& cgroup) {
  const auto used = ReadNumber(cgroup + "/memory.current");
  return used ? used : ReadNumber(cgroup + "/memory.usage_in_bytes");
}

// What a cgroup has left. Nothing: it has no limit.
std::optional<int64_t> LeftIn(const std::string& cgroup) {
  const auto most = LimitOf(cgroup), used = UseOf(cgroup);
  if (!most || !used) return std::nullopt;
  const int64_t held = std::max<int64_t>(0, *used - Reclaimable(cgroup));
  return std::max<int64_t>(0, *most - held);
}

// Bytes, as /proc/meminfo has them under this name.
absl::StatusOr<int64_t> OfMachine(absl::string_view name, const std::string& root) {
  const std::string text = ReadSystemFile(root + "/proc/meminfo");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t kib = 0;
    if (absl::ConsumePrefix(&line, name) && absl::ConsumeSuffix(&line, " kB") &&
        absl::SimpleAtoi(line, &kib))
      return kib * 1024;
  }
  return absl::NotFoundError(absl::StrCat("/proc/meminfo has no line ", name));
}

// The least of what the machine and the cgroups say.
absl::StatusOr<int64_t> Least(absl::string_view name,
                              std::optional<int64_t> (*of_cgroup)(const std::string&),
                              const std::string& root) {
  absl::StatusOr<int64_t> least = OfMachine(name, root);
  if (!least.ok()) return least;
  for (const std::string& cgroup : CgroupFolders("memory", root)) {
    if (const auto bytes = of_cgroup(cgroup); bytes.has_value()) *least = std::min(*least, *bytes);
  }
  return least;
}

}  // namespace

absl::StatusOr<int64_t> AvailableMemory(const std::string& root) {
  return Least("MemAvailable:", LeftIn, root);
}

absl::StatusOr<int64_t> MemoryLimit(const std::string& root) {
  return Least("MemTotal:", LimitOf, root);
}

}  // namespace longhaul
