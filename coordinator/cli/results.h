// The commands for what jobs leave: checkpoint, download, events, delete.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

void AddResultCommands(CLI::App& app, Arguments& arguments);

Outcome Checkpoint(const Arguments& arguments, Client& client, const Environment& environment);
Outcome DownloadTo(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Events(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Delete(const Arguments& arguments, Client& client, const Environment& environment);

// The deadline of a command that waits: --timeout from now, or never.
absl::Time DeadlineOf(const Arguments& arguments, const Environment& environment);

// Waits until the checkpoint of this step is there. FAILED_PRECONDITION: the job has ended without
// it. DEADLINE_EXCEEDED: not by then. UNAVAILABLE: the server has been away for 10 minutes.
absl::Status AwaitCheckpoint(const std::string& job, int64_t step, absl::Time deadline,
                             Client& client, const Environment& environment);

}  // namespace longhaul::cli
