// How gigabytes are written beside commits. A sync waits for what other files have on its way to
// the same device, so large files are written in small steps, each synced before the next.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/io/filesystem.h"

namespace longhaul {

// What a commit may have to wait for. Smaller steps cost a large file more than they give a commit.
inline constexpr int64_t kPacedStepBytes = 64 << 10;

// Writes the bytes, with at most one step unsynced at any time: at the end, all are durable. Blocks
// on the disk. Errors: those of WriteAt and SyncData.
absl::Status WritePaced(File& file, int64_t offset, absl::string_view bytes);

}  // namespace longhaul
