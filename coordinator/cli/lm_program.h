// `longhaul eval`, `longhaul sample`: commands of longhaul-lm, which is a program of its own because it
// loads torch.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "coordinator/cli/cli_error.h"

namespace longhaul::cli {

// Whether `args` (without the program's name) are such a command.
bool IsLmCommand(const std::vector<std::string>& args);

// Becomes longhaul-lm with these arguments: that of the folder in which this program lies, else of
// PATH. Returns only if there is none, and then why.
CliError BecomeLm(std::vector<std::string> args);

// Whether they ask for the help page of such a command.
bool AsksForLmHelp(const std::vector<std::string>& args);

// Has longhaul-lm show that page on standard output, and adds the examples of help_examples.h to `out`,
// which is standard output, too. An error: there is no longhaul-lm. Blocks.
std::optional<CliError> ShowLmHelp(std::vector<std::string> args, std::ostream& out);

}  // namespace longhaul::cli
