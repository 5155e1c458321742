#include "worker/cores/host_cores.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/cgroup_folders.h"
#include "common/io/system_file.h"
#include "worker/cores/processor_list.h"

namespace longhaul {
namespace {

std::vector<int> ListIn(const std::string& path) {
  return ParseProcessorList(ReadSystemFile(path)).value_or(std::vector<int>());
}

absl::StatusOr<std::vector<int>> AllowedProcessors(const std::string& root) {
  for (absl::string_view line : absl::StrSplit(ReadSystemFile(root + "/proc/self/status"), '\n')) {
    if (!absl::ConsumePrefix(&line, "Cpus_allowed_list:")) continue;
    LH_ASSIGN_OR_RETURN(std::vector<int> processors, ParseProcessorList(line));
    if (!processors.empty()) return processors;
  }
  return absl::NotFoundError("/proc/self/status does not say which processors may be used");
}

std::map<int, int> NodeOfProcessors(const std::string& root) {
  const std::string nodes = root + "/sys/devices/system/node/";
  std::map<int, int> node_of;
  for (const int node : ListIn(nodes + "online")) {
    for (const int processor : ListIn(absl::StrCat(nodes, "node", node, "/cpulist")))
      node_of[processor] = node;
  }
  return node_of;
}

std::vector<int> Siblings(const std::string& root, int processor) {
  const std::string folder =
      absl::StrCat(root, "/sys/devices/system/cpu/cpu", processor, "/topology/");
  std::vector<int> siblings = ListIn(folder + "core_cpus_list");
  if (siblings.empty()) siblings = ListIn(folder + "thread_siblings_list");  // Before Linux 5.3.
  return siblings;
}

// Processors' worth of time, 0 without a limit: "QUOTA PERIOD" in microseconds; "max", -1: none.
double QuotaOf(absl::string_view quota, absl::string_view period) {
  double granted = 0, of = 0;
  const bool numbers = absl::SimpleAtod(quota, &granted) && absl::SimpleAtod(period, &of);
  return numbers && granted > 0 && of > 0 ? granted / of : 0;
}

double QuotaIn(const std::string& folder) {
  const std::vector<std::string> both =
      absl::StrSplit(ReadSystemFile(folder + "/cpu.max"), absl::ByAnyChar(" \n"));
  if (both.size() >= 2) return QuotaOf(both[0], both[1]);
  return QuotaOf(ReadSystemFile(folder + "/cpu.cfs_quota_us"),
                 ReadSystemFile(folder + "/cpu.cfs_period_us"));
}

// The least of the cgroup and those around it.
double CgroupQuota(const std::string& root) {
  double least = 0;
  for (const std::string& folder : CgroupFolders("cpu", root)) {
    const double quota = QuotaIn(folder);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

}  // namespace

int HostCores::count() const {
  const int left = std::max(1, static_cast<int>(cores.size()) - busy);
  return quota > 0 && quota < left ? std::max(1, static_cast<int>(quota)) : left;
}

absl::StatusOr<HostCores> ReadHostCores(const std::string& root) {
  LH_ASSIGN_OR_RETURN(const std::vector<int> allowed, AllowedProcessors(root));
  const std::map<int, int> node_of = NodeOfProcessors(root);
  HostCores host{.quota = CgroupQuota(root)};
  std::set<int> seen;
  for (const int processor : allowed) {
    if (seen.count(processor) > 0) continue;
    Core core;
    if (const auto node = node_of.find(processor); node != node_of.end())
      core.numa_node = node->second;
    for (const int sibling : Siblings(root, processor)) {
      if (std::binary_search(allowed.begin(), allowed.end(), sibling) &&
          seen.insert(sibling).second)
        core.processors.push_back(sibling);
    }
    if (seen.insert(processor).second) core.processors = {processor};
    host.cores.push_back(std::move(core));
  }
  std::stable_sort(host.cores.begin(), host.cores.end(), [](const Core& one, const Core& other) {
    return one.numa_node < other.numa_node;
  });
  return host;
}

}  // namespace longhaul
