#include "worker/measure/host_caches.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/io/system_file.h"

namespace longhaul {
namespace {

constexpr int kCachesMax = 3, kIndicesMax = 16;
constexpr double kBytesMax = 1LL << 40;

std::string Text(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadSystemFile(path)));
}

// "48K", "2048K", "33M". 0: not a size.
double SizeOf(absl::string_view text) {
  double unit = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    unit = text.back() == 'K' ? 1024 : 1024 * 1024;
    text.remove_suffix(1);
  }
  double size = 0;
  return absl::SimpleAtod(text, &size) && size > 0 && size * unit <= kBytesMax ? size * unit : 0;
}

// How many processors a list such as "0-3,8" names. At least 1.
int CountOf(absl::string_view list) {
  int64_t count = 0;
  for (const absl::string_view range : absl::StrSplit(list, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int64_t first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) continue;
    if (first >= 0 && last >= first && last < 1 << 20) count += last - first + 1;
  }
  return static_cast<int>(std::max<int64_t>(1, count));
}

}  // namespace

std::vector<double> HostCaches(int threads, const std::string& root) {
  std::map<int, double> by_level;
  for (int i = 0; i < kIndicesMax; ++i) {
    const std::string folder = absl::StrCat(root, "/sys/devices/system/cpu/cpu0/cache/index", i);
    const std::string type = Text(folder + "/type");
    int level = 0;
    if (type.empty()) break;
    if (type == "Instruction" || !absl::SimpleAtoi(Text(folder + "/level"), &level)) continue;
    const double size = SizeOf(Text(folder + "/size"));
    const int sharing = CountOf(Text(folder + "/shared_cpu_list"));
    if (size > 0) by_level[level] = size * std::max(1, (threads + sharing - 1) / sharing);
  }
  std::vector<double> caches;
  for (int level = 1; level <= kCachesMax && by_level.contains(level); ++level) {
    if (!caches.empty() && by_level[level] <= caches.back()) break;
    caches.push_back(by_level[level]);
  }
  return caches;
}

}  // namespace longhaul
