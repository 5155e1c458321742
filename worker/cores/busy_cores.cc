#include "worker/cores/busy_cores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/io/system_file.h"

namespace longhaul {
namespace {

// In ticks, since the system started.
struct ProcessorTime {
  int64_t busy = 0, idle = 0;
};

struct TimesRead {
  std::map<int, ProcessorTime> processors;  // By number.
  int64_t own = 0;                          // Of this process and its children.
};

// The numbers in `fields` from `first` on, at most `count`.
std::vector<int64_t> NumbersOf(absl::Span<const absl::string_view> fields, size_t first,
                               size_t count) {
  std::vector<int64_t> numbers;
  for (size_t i = first; i < fields.size() && numbers.size() < count; ++i) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(fields[i], &number)) break;
    numbers.push_back(number);
  }
  return numbers;
}

// Lines "cpuN user nice system idle iowait irq softirq steal ...". What guests use is in user and
// nice.
std::map<int, ProcessorTime> ParseProcessorTimes(const std::string& text) {
  constexpr size_t kColumns = 8, kIdle = 3, kIoWait = 4;
  std::map<int, ProcessorTime> processors;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.empty()) continue;
    absl::string_view name = fields.front();
    int processor = 0;
    if (!absl::ConsumePrefix(&name, "cpu") || !absl::SimpleAtoi(name, &processor)) continue;
    ProcessorTime time;
    const std::vector<int64_t> ticks = NumbersOf(fields, 1, kColumns);
    for (size_t i = 0; i < ticks.size(); ++i)
      (i == kIdle || i == kIoWait ? time.idle : time.busy) += ticks[i];
    processors[processor] = time;
  }
  return processors;
}

// "PID (NAME) STATE ..." with user, system, and both of the children, from the 14th field on. A
// name may have spaces and parentheses.
int64_t ParseOwnTicks(const std::string& text) {
  constexpr size_t kUserAfterName = 11;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields = absl::StrSplit(
      absl::string_view(text).substr(name_end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t ticks = 0;
  for (const int64_t of : NumbersOf(fields, kUserAfterName, 4)) ticks += of;
  return ticks;
}

absl::StatusOr<TimesRead> ReadTimes(const std::string& root) {
  TimesRead times{.processors = ParseProcessorTimes(ReadSystemFile(root + "/proc/stat")),
                  .own = ParseOwnTicks(ReadSystemFile(root + "/proc/self/stat"))};
  if (times.processors.empty())
    return absl::NotFoundError("/proc/stat does not say how busy processors are");
  return times;
}

}  // namespace

absl::StatusOr<int> MeasureBusyCores(const HostCores& host, absl::FunctionRef<void()> wait,
                                     const std::string& root) {
  LH_ASSIGN_OR_RETURN(TimesRead before, ReadTimes(root));
  wait();
  LH_ASSIGN_OR_RETURN(TimesRead after, ReadTimes(root));
  double cores = 0;
  int64_t window = 0;  // In ticks.
  for (const Core& core : host.cores) {
    double used = 0;
    for (const int processor : core.processors) {
      const ProcessorTime &then = before.processors[processor], &now = after.processors[processor];
      // Waiting for input and output may be counted back.
      const int64_t busy = std::max<int64_t>(0, now.busy - then.busy);
      const int64_t all = busy + std::max<int64_t>(0, now.idle - then.idle);
      if (all > 0) used += static_cast<double>(busy) / static_cast<double>(all);
      window = std::max(window, all);
    }
    cores += std::min(used, 1.0);
  }
  if (window > 0)
    cores -= static_cast<double>(after.own - before.own) / static_cast<double>(window);
  return std::clamp(static_cast<int>(std::lround(cores)), 0, static_cast<int>(host.cores.size()));
}

}  // namespace longhaul
