// The commands pause and resume.
#pragma once

#include <optional>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

void AddPauseCommands(CLI::App& app, Arguments& arguments);

// Empty: `arguments` names none of them.
std::optional<Outcome> RunPauseCommand(const Arguments& arguments, Client& client,
                                       const Environment& environment);

}  // namespace longhaul::cli
