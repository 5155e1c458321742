// `longhaul simulate partition`.
#pragma once

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/outcome.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddPartition(CLI::App& group, SimulateArguments& arguments);
Outcome SimulatePartition(const SimulateArguments& arguments);

}  // namespace longhaul::cli
