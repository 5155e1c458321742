// Writes large files beside commits. A sync waits for everything that other files send to the same
// device. So large files are written in small steps, each synced before the next.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// The most bytes that a commit may have to wait for. Smaller steps cost a large file more time than
// they save a commit.
inline constexpr int64_t kPacedStepBytes = 64 << 10;

// Writes the bytes. At most one step is unsynced at any time, and at the end all are durable.
// Blocks on the disk. Errors: those of WriteAt and SyncData.
absl::Status WritePaced(File& file, int64_t offset, absl::string_view bytes);

}  // namespace longhaul
