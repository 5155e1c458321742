// `longhaul simulate`: the models behind the planner, with numbers of the user's own. Needs no
// coordinator.
#pragma once

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddSimulate(CLI::App& app, Arguments& arguments);

// `arguments.command` begins with "simulate ".
Outcome Simulate(const Arguments& arguments, const Environment& environment);

}  // namespace longhaul::cli
