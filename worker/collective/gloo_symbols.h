// Checks which library gloo's symbols come from. libtorch_cpu contains its own, newer gloo, and
// exports some of it under the same names as libgloo. In a program that links both they must
// resolve to libgloo, otherwise every collective crashes.
#pragma once

#include "absl/status/status.h"

namespace longhaul {

// FAILED_PRECONDITION, with the name and the library found, unless gloo's functions resolve to
// libgloo in this process. Programs that make a gloo communicator call it at their start.
// Thread-safe, does not block.
absl::Status CheckGlooSymbols();

}  // namespace longhaul
