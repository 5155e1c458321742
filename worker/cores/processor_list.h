// Sets of logical processors as the kernel writes them: "0-3,8".
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

// No processor has a higher number.
inline constexpr int kProcessorMax = 8191;

// In ascending order, each once. Space around the list is allowed, an empty list is empty.
// INVALID_ARGUMENT: another form, or a number above kProcessorMax.
absl::StatusOr<std::vector<int>> ParseProcessorList(absl::string_view list);
// `processors`: in ascending order.
std::string ProcessorList(const std::vector<int>& processors);

// The calling thread, and those that it starts, run on these alone from now on. An empty list:
// nothing changes. Errors: those of ParseProcessorList and of sched_setaffinity.
absl::Status BindToProcessors(absl::string_view list);

}  // namespace longhaul
