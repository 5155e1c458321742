// `longhaul eval`, `longhaul sample`: commands of longhaul-lm, which is a program of its own because it
// loads torch.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/cli_error.h"

namespace longhaul::cli {

// Whether `args` (without the program's name) are such a command.
bool IsLmCommand(const std::vector<std::string>& args);

// Becomes longhaul-lm with these arguments: that of the folder in which this program lies, else of
// PATH. Returns only if there is none, and then why.
CliError BecomeLm(const std::vector<std::string>& args);

}  // namespace longhaul::cli
