#include "worker/cores/processor_list.h"

#include <sched.h>

#include <cerrno>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<std::vector<int>> ParseProcessorList(absl::string_view list) {
  list = absl::StripAsciiWhitespace(list);
  if (list.empty()) return std::vector<int>();
  std::set<int> processors;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    const bool numbers =
        absl::SimpleAtoi(ends.front(), &first) && absl::SimpleAtoi(ends.back(), &last);
    if (!numbers || first < 0 || last < first || last > kProcessorMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", part.substr(0, 32), "' is not a set of processors like 0-3"));
    }
    for (int i = first; i <= last; ++i) processors.insert(i);
  }
  return std::vector<int>(processors.begin(), processors.end());
}

std::string ProcessorList(const std::vector<int>& processors) {
  std::string list;
  for (size_t i = 0; i < processors.size();) {
    size_t end = i + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    absl::StrAppend(&list, list.empty() ? "" : ",", processors[i]);
    if (end > i + 1) absl::StrAppend(&list, "-", processors[end - 1]);
    i = end;
  }
  return list;
}

absl::Status BindToProcessors(absl::string_view list) {
  LH_ASSIGN_OR_RETURN(const std::vector<int> processors, ParseProcessorList(list));
  if (processors.empty()) return absl::OkStatus();
  cpu_set_t* const set = CPU_ALLOC(kProcessorMax + 1);
  const size_t size = CPU_ALLOC_SIZE(kProcessorMax + 1);
  CPU_ZERO_S(size, set);
  for (const int processor : processors) CPU_SET_S(processor, size, set);
  const int error = sched_setaffinity(0, size, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  return error == 0 ? absl::OkStatus()
                    : absl::ErrnoToStatus(error, absl::StrCat("binding to processors ", list));
}

}  // namespace longhaul
