// The command line of longhaul-coordinator, with its variables and its configuration file
// (common/command_line/config_file.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/rpc/tls_files.h"
#include "coordinator/server/server.h"

namespace longhaul::coordinator {

struct Flags {
  // Without `tls`: the program loads tls_files.
  CoordinatorServerOptions server;
  TlsFiles tls_files;
  // A file that is written once the coordinator serves. Empty: none.
  std::string ready_file;
  // Verify the data folder, report what was found, and exit.
  bool check = false;
  // Before serving, add jobs to the database whose folders it does not know.
  bool adopt = false;
  // Of the environment (MisspeltVariables).
  std::vector<std::string> misspelt;
};

// Empty if the program must exit with *exit_code (help and --print-config: 0; otherwise
// UsageExitCode). Then all messages were printed.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code);

}  // namespace longhaul::coordinator
