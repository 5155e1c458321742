// Errors after which a store can guarantee nothing more. A failed sync is final: the system may
// have dropped the bytes, and a second sync may succeed without writing them. WHOEVER GETS A FATAL
// STATUS MUST PUBLISH NOTHING AND LET THE PROCESS EXIT. The next start recovers what was
// acknowledged. The store itself refuses every later call with the same status.
#pragma once

#include "absl/status/status.h"

namespace longhaul {

// Marks a non-OK status.
absl::Status MarkFatal(absl::Status status);
bool IsFatal(const absl::Status& status);
// Whether the same may succeed later: the disk is full, or no file descriptor is left, and the
// status is not fatal.
bool Passes(const absl::Status& status);

}  // namespace longhaul
