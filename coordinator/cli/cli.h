// The program `longhaul`, as a function.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/environment.h"
#include "coordinator/cli/exit_code.h"

namespace longhaul::cli {

// `args` without the program's name. Blocks until the command is done. Never throws.
ExitCode Run(const std::vector<std::string>& args, const Environment& environment);

}  // namespace longhaul::cli
