// `longhaul plan`: what a job would take at sites that a file describes, before it is submitted.
// Needs no coordinator.
#pragma once

#include "coordinator/cli/arguments.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddPlan(CLI::App& app, Arguments& arguments);

Outcome Plan(const Arguments& arguments, const Environment& environment);

}  // namespace longhaul::cli
