// `longhaul eval`, `longhaul sample`, `longhaul graph predict`: commands of longhaul-lm, which is a
// program of its own because it loads torch.
#pragma once

#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/cli/cli_error.h"

namespace longhaul::cli {

// How many words of `args` (without the program's name) are the name of such a command. 0: they are
// none.
int LmCommandWords(const std::vector<std::string>& args);
inline bool IsLmCommand(const std::vector<std::string>& args) { return LmCommandWords(args) > 0; }

// Replaces this process by longhaul-lm with these arguments. The program is taken from the folder
// of this program, else from PATH. Returns only if there is none, with the reason.
CliError BecomeLm(std::vector<std::string> args);

// Whether they ask for the help page of such a command.
bool AsksForLmHelp(const std::vector<std::string>& args);

// Lets longhaul-lm write that page to standard output, then writes the examples of help_examples.h
// to `out`, which is standard output too. Returns the exit code of longhaul-lm, which has told why
// if it is not 0; or that there is no longhaul-lm. Blocks.
std::variant<ExitCode, CliError> ShowLmHelp(std::vector<std::string> args, std::ostream& out);

}  // namespace longhaul::cli
