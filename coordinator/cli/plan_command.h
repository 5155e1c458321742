// `longhaul plan`: what a job would take before it is submitted, at sites that a file describes, or
// with the pools that are connected to a coordinator.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/config/job_spec.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"
#include "coordinator/cli/outcome.h"
#include "longhaul/v1/plan.pb.h"

namespace CLI {
class App;
}

namespace longhaul::cli {

void AddPlan(CLI::App& app, Arguments& arguments);

// With the file of sites that `arguments` names. Needs no coordinator.
Outcome PlanForSites(const Arguments& arguments, const Environment& environment);
// With the coordinator's pools.
Outcome Plan(const Arguments& arguments, Client& client, const Environment& environment);

// The job that `arguments` name, resolved, or why there is none.
std::variant<ResolvedJob, CliError> ReadPlannedJob(const Arguments& arguments,
                                                   const Environment& environment);
// Of a YAML file.
std::variant<v1::Sites, CliError> ReadSites(const std::string& path);
// The error of CompleteSites: `refused` where the sites are wrong, else the refusal of the job.
CliError ErrorOfSites(const absl::Status& status, const std::vector<SpecViolation>& violations,
                      const std::string& refused);
// --link-mbps and --rtt-ms.
void SetGivenLinks(const Arguments& arguments, v1::Sites& sites);

}  // namespace longhaul::cli
