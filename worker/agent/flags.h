// The command line of longhaul-worker, with its variables and its configuration file
// (common/command_line/config_file.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/site.h"

namespace longhaul {

struct WorkerFlags {
  // What the flags say. Without `log`, `log_ring`, `log_format` and `tls`, which the program makes,
  // and without what PrepareSite finds out.
  AgentOptions agent;
  LogFormat log_format = LogFormat::kAuto;
  // Of agent.log. The ranks' is agent.log_level.
  LogLevel log_level = LogLevel::kInfo;
  SiteChoice site;
  // For measuring this machine at the start (FindMachineFigures).
  absl::Duration measure;
  // Measure this machine, say so, and end; for programs.
  bool measures = false, measures_as_json = false;
  // Of the environment (MisspeltVariables).
  std::vector<std::string> misspelt;
};

// Empty if the program must exit with *exit_code (help and --print-config: 0; otherwise
// UsageExitCode). Then all messages were printed.
std::optional<WorkerFlags> ParseWorkerFlags(int argc, char** argv, int* exit_code);

}  // namespace longhaul
