// libtorch_cpu carries its own, newer gloo and exports some of it under the same names as libgloo.
// A program that links both must resolve them to libgloo, or every collective ends in a crash.
#pragma once

#include "absl/status/status.h"

namespace longhaul {

// FAILED_PRECONDITION, with the name and the library found, unless gloo's functions resolve to
// libgloo in this process. Programs that make a gloo communicator call it at start. Thread-safe,
// does not block.
absl::Status CheckGlooSymbols();

}  // namespace longhaul
