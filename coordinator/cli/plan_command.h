// `longhaul plan`: what a job would take before it is submitted, at sites that a file describes, or
// with the pools that are connected to a coordinator.
#pragma once

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddPlan(CLI::App& app, Arguments& arguments);

// With the file of sites that `arguments` names. Needs no coordinator.
Outcome PlanForSites(const Arguments& arguments, const Environment& environment);
// With the coordinator's pools.
Outcome Plan(const Arguments& arguments, Client& client, const Environment& environment);

}  // namespace longhaul::cli
