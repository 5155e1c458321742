// The terminal of this process.
#pragma once

#include <memory>

#include "coordinator/cli/environment.h"

namespace longhaul::cli {

// Null: TERM is empty or "dumb", or neither standard error nor standard output is a terminal. Its
// destructor restores the terminal's settings for keys. While these are changed, SIGHUP, SIGINT and
// SIGTERM end QuitWithin, within a second; the destructor then ends the process by that signal.
std::unique_ptr<Terminal> OpenTerminal();

}  // namespace longhaul::cli
