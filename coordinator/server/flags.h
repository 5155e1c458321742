// The command line of longhaul-coordinator. A flag stands above its environment variable (LONGHAUL_
// and the flag's name in capitals), and that above the default.
#pragma once

#include <optional>
#include <string>

#include "common/rpc/tls_files.h"
#include "coordinator/server/server.h"

namespace longhaul::coordinator {

struct Flags {
  CoordinatorServerOptions server;  // Without tls: the program loads tls_files.
  TlsFiles tls_files;
  std::string ready_file;     // Written once the coordinator serves. Empty: none.
  bool print_config = false;  // Show what is in force and end.
  bool check = false;         // Verify the data folder, say what was found, and end.
  bool adopt = false;         // Before serving: make jobs known to the database that it lacks.
};

// Nothing: the program is to end with *exit_code (help was asked for: 0; a mistake: 4), everything
// has been said.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code);

// One `name: value` a line, named as the flags.
std::string ConfigText(const Flags& flags);

}  // namespace longhaul::coordinator
