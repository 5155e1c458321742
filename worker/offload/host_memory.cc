#include "worker/offload/host_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_marks.h"
#include "common/io/cgroup_folders.h"
#include "common/io/system_file.h"

namespace longhaul {
namespace {

std::string Size(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMiB;
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.1f GiB", mib / 1024);
}

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

// What a cgroup has left. Nothing: it has no limit.
std::optional<int64_t> LeftIn(const std::string& cgroup) {
  auto most = ReadNumber(cgroup + "/memory.max"), used = ReadNumber(cgroup + "/memory.current");
  if (!most || !used) {  // Version 1.
    most = ReadNumber(cgroup + "/memory.limit_in_bytes");
    used = ReadNumber(cgroup + "/memory.usage_in_bytes");
  }
  if (!most || !used) return std::nullopt;
  const int64_t held = std::max<int64_t>(0, *used - Reclaimable(cgroup));
  return std::max<int64_t>(0, *most - held);
}

}  // namespace

absl::StatusOr<int64_t> AvailableHostMemory(const std::string& root) {
  const std::string text = ReadSystemFile(root + "/proc/meminfo");
  int64_t available = -1;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemAvailable:") || !absl::ConsumeSuffix(&line, " kB"))
      continue;
    if (absl::SimpleAtoi(line, &available)) available *= 1024;
  }
  if (available < 0) return absl::NotFoundError("/proc/meminfo does not say what is available");
  for (const std::string& cgroup : CgroupFolders("memory", root)) {
    if (const std::optional<int64_t> left = LeftIn(cgroup)) available = std::min(available, *left);
  }
  return available;
}

absl::Status CheckHostMemory(const OffloadNeed& need, int ranks, int64_t available) {
  if (ranks * need.total() <= available) return absl::OkStatus();
  const std::string message = absl::StrFormat(
      "this node needs %s of host memory and has %s left: %d ranks of %s (masters %s, weights %s, "
      "moments and gradients %s, emulated device %s); use more nodes, or a partition that splits "
      "the optimizer state over more ranks",
      Size(ranks * need.total()), Size(available), ranks, Size(need.total()), Size(need.masters),
      Size(need.weights), Size(need.optimizer), Size(need.emulated));
  return AboutField("offload", absl::FailedPreconditionError(message));
}

absl::Status CheckEvaluationMemory(const EvaluationNeed& need, int ranks, int64_t available) {
  if (ranks * need.total() <= available) return absl::OkStatus();
  const std::string message = absl::StrFormat(
      "this node needs %s of memory for it and has %s left: %d ranks of %s (%d copies of the "
      "weights of %s, activations %s); leave it out, or use a smaller batch",
      Size(ranks * need.total()), Size(available), ranks, Size(need.total()), need.copies,
      Size(need.copy), Size(need.activations));
  return AboutField("evaluation.beside_training", absl::FailedPreconditionError(message));
}

}  // namespace longhaul
