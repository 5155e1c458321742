// The commands for what jobs leave: checkpoint, download, events, delete.
#pragma once

#include <optional>

#include "coordinator/cli/client.h"
#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

void AddResultCommands(CLI::App& app, Arguments& arguments);

// Nothing: `arguments` names none of them.
std::optional<Outcome> RunResultCommand(const Arguments& arguments, Client& client,
                                        const Environment& environment);

}  // namespace longhaul::cli
