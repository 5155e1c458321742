// Whether the disk has room for what is about to be written. Thread-safe; blocks on the file
// system.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// RESOURCE_EXHAUSTED, with both numbers: `bytes` more in `folder` would leave less than `reserve`.
// `what` begins the message. OK if the system does not say how much is free: then the write itself
// finds out.
absl::Status CheckDiskRoom(FileSystem& fs, const std::string& folder, absl::string_view what,
                           int64_t bytes, int64_t reserve);

}  // namespace longhaul
