// Follows a job to its end (or its quarantine), across restarts of the coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/progress.h"

namespace longhaul::cli {

struct WatchOptions {
  // Of the whole wait: DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  // The server has answered an earlier call.
  bool contacted = false;
  // Show only what went wrong, not each update.
  bool quiet = false;
  // Called with each event of the job after `events_after`, once. Empty: no events.
  std::function<void(const v1::JobEvent&)> on_event = nullptr;
  int64_t events_after = 0;
  // Called with each update. If it returns false, the wait ends with CANCELLED.
  std::function<bool(const v1::Job&)> on_job;
};

// Blocks until the job has ended, or is quarantined, and returns it as it then was. Once the server
// has answered (or `contacted`), UNAVAILABLE (and a stream that ends before the job) makes it
// reconnect with the last cursor, for at most kSilentMax, and say so through `progress`; before
// that, and for any other error, it returns the error.
absl::StatusOr<v1::Job> WatchToEnd(Client& client, Clock& clock, const std::string& job,
                                   const WatchOptions& options, Progress& progress);

}  // namespace longhaul::cli
