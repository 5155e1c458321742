// Copies a checkpoint from the coordinator into a folder. The bytes that came stay in
// `<out>.partial`. The next try, in this call or in another, continues after them. The folder gets
// its name when every file is there, verified and synced.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/checkpoint_name.h"
#include "common/io/filesystem.h"
#include "coordinator/cli/cli_error.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

struct DownloadOptions {
  // The folder to make.
  std::string out;
  // For the whole call: DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
};

struct Downloaded {
  std::string job;
  int64_t step = 0;
  // Of all files but the manifest.
  int64_t bytes = 0;
  // By this call.
  int64_t received = 0;
};

// Blocks. Once the server has answered, it is called again after UNAVAILABLE, for at most
// kSilentMax without a byte, from the first missing one. If `out` is this checkpoint already, it is
// verified and not changed.
//   ALREADY_EXISTS      out (or out.partial) is something else
//   RESOURCE_EXHAUSTED  the disk is full; what came stays
//   DATA_LOSS           a file is not what the manifest says, twice
//   others              the server's
absl::StatusOr<Downloaded> Download(const CheckpointName& name, const DownloadOptions& options,
                                    Client& client, FileSystem& fs, const Environment& environment);

// Whether an error of Download arose on this machine.
bool IsLocal(const absl::Status& status);
// The error of a Download from `address`, and what to do about it.
CliError ErrorOfDownload(const absl::Status& status, const std::string& address);

}  // namespace longhaul::cli
