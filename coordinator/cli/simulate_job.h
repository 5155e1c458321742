// `longhaul simulate job`.
#pragma once

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddSimulateJob(CLI::App& group, Arguments& arguments);
Outcome SimulateJobs(const Arguments& arguments, const Environment& environment);

}  // namespace longhaul::cli
