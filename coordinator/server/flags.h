// The command line of longhaul-coordinator. A flag overrides its environment variable (LONGHAUL_
// and the flag's name in capitals), which overrides the default.
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
  // As they were given.
  std::string log_level = "info", log_format = "auto";
  // A file that is written once the coordinator serves. Empty: none.
  std::string ready_file;
  // Show the effective configuration and exit.
  bool print_config = false;
  // Verify the data folder, report what was found, and exit.
  bool check = false;
  // Before serving, add jobs to the database whose folders it does not know.
  bool adopt = false;
  // Of the environment (MisspeltVariables).
  std::vector<std::string> misspelt;
};

// Empty if the program must exit with *exit_code (help: 0; a mistake: 4). Then all messages were
// printed.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code);

// One line `name: value` for each flag.
std::string ConfigText(const Flags& flags);

}  // namespace longhaul::coordinator
