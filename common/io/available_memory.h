// How much memory this process may use. Thread-safe; reads files of the system. `root`: the path of
// the system's root, for tests. NOT_FOUND: the system does not say.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace longhaul {

// The bytes that this process may still use: what the machine, its cgroup or one around that has
// left, whichever is least. Pages of files count as left, since the system gives them back.
absl::StatusOr<int64_t> AvailableMemory(const std::string& root = "");

// The bytes that there are in all: those of the machine, or the limit of the cgroup or of one
// around it, whichever is least.
absl::StatusOr<int64_t> MemoryLimit(const std::string& root = "");

}  // namespace longhaul
