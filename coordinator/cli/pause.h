// The commands pause and resume.
#pragma once

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

void AddPauseCommands(CLI::App& app, Arguments& arguments);

Outcome Pause(const Arguments& arguments, Client& client, const Environment& environment);
Outcome Resume(const Arguments& arguments, Client& client, const Environment& environment);

}  // namespace longhaul::cli
