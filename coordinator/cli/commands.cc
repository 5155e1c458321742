#include "coordinator/cli/commands.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/names.h"
#include "coordinator/cli/compare.h"
#include "coordinator/cli/data_command.h"
#include "coordinator/cli/export.h"
#include "coordinator/cli/graph_command.h"
#include "coordinator/cli/pause.h"
#include "coordinator/cli/plan_command.h"
#include "coordinator/cli/results.h"
#include "coordinator/cli/simulate.h"
#include "coordinator/cli/spec_explain.h"
#include "coordinator/cli/spec_init.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

Outcome Get(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  return {JobJson(*job), JobTable(*job, environment.clock.Now(), {environment.table_columns()})};
}

std::string NamesOf(const v1::ListJobsResponse& jobs) {
  std::string text;
  for (const v1::Job& job : jobs.jobs()) {
    // Shells expand the words of a completion.
    if (IsName(job.spec().name())) absl::StrAppend(&text, job.spec().name(), "\n");
  }
  return text;
}

Outcome List(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs(arguments.limit);
  if (!jobs.ok()) return ErrorOfCall(jobs.status(), client.address());
  std::string table = JobsTable(*jobs, environment.clock.Now(), {environment.table_columns()});
  if (arguments.names) table = NamesOf(*jobs);
  return {JobsJson(*jobs), std::move(table)};
}

Outcome Cancel(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::Job> job = client.CancelJob(arguments.job, arguments.reason);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  return {JobJson(*job),
          absl::StrCat(Printable(job->spec().name()), " ", StateName(job->state()), "\n")};
}

Outcome Pools(const Arguments&, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::ListPoolsResponse> pools = client.ListPools();
  if (!pools.ok()) return ErrorOfCall(pools.status(), client.address());
  return {PoolsJson(*pools), PoolsTable(*pools, {environment.table_columns()})};
}

Outcome Checkpoints(const Arguments& arguments, Client& client, const Environment& environment) {
  const auto checkpoints = client.ListCheckpoints(arguments.job);
  if (!checkpoints.ok()) return ErrorOfCall(checkpoints.status(), client.address());
  return {CheckpointsJson(*checkpoints),
          CheckpointsTable(*checkpoints, {environment.table_columns()})};
}

Outcome Version() {
  return {Json{{"version", LONGHAUL_VERSION}, {"api", "longhaul.v1"}},
          absl::StrCat("longhaul ", LONGHAUL_VERSION, "\n")};
}

struct Command {
  absl::string_view name;
  Outcome (*run)(const Arguments&, Client&, const Environment&);
};

constexpr Command kCommands[] = {
    {"submit", Submit},
    {"watch", Watch},
    {"wait", Wait},
    {"logs", Logs},
    {"top", Top},
    {"get", Get},
    {"list", List},
    {"cancel", Cancel},
    {"pools", Pools},
    {"checkpoints", Checkpoints},
    {"pause", Pause},
    {"resume", Resume},
    {"checkpoint", Checkpoint},
    {"download", DownloadTo},
    {"events", Events},
    {"delete", Delete},
    {"compare", Compare},
    {"plan", Plan},
};

}  // namespace

std::optional<Outcome> RunLocalCommand(const Arguments& arguments, const Environment& environment) {
  if (arguments.command == "version") return Version();
  if (arguments.command == "data check") return CheckDataFiles(arguments);
  if (arguments.command == "graph info") return ShowGraph(arguments);
  if (absl::StartsWith(arguments.command, "graph import ")) return ImportGraphFiles(arguments);
  if (arguments.command == "plan" && !arguments.sites.empty())
    return PlanForSites(arguments, environment);
  if (absl::StartsWith(arguments.command, "simulate ")) return Simulate(arguments, environment);
  if (absl::StartsWith(arguments.command, "certs ")) return Certs(arguments);
  if (arguments.command == "tokens add") return AddToken(arguments);
  if (arguments.command == "export" && IsLocalExport(arguments))
    return Export(arguments, nullptr, environment);
  if (arguments.command == "doctor") return Doctor(arguments, environment);
  if (arguments.command == "contexts") return ListContexts(arguments, environment);
  if (arguments.command == "spec explain")
    return SpecExplain(arguments.path, environment.columns());
  if (arguments.command == "spec init") return SpecInit(arguments.spec_template);
  return std::nullopt;
}

Outcome RunCommand(const Arguments& arguments, Client& client, const Environment& environment) {
  if (arguments.command == "export") return Export(arguments, &client, environment);
  for (const Command& command : kCommands) {
    if (command.name == arguments.command) return command.run(arguments, client, environment);
  }
  return CliError{.code = "INTERNAL",
                  .message = absl::StrCat("no such command: ", arguments.command)};
}

}  // namespace longhaul::cli
