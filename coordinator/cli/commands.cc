#include "coordinator/cli/commands.h"

#include "absl/strings/str_cat.h"
#include "coordinator/cli/export.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

Outcome Get(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::Job> job = client.GetJob(arguments.job);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  return {JobJson(*job), JobTable(*job, environment.clock.Now())};
}

Outcome List(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs(arguments.limit);
  if (!jobs.ok()) return ErrorOfCall(jobs.status(), client.address());
  return {JobsJson(*jobs), JobsTable(*jobs, environment.clock.Now())};
}

Outcome Cancel(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<v1::Job> job = client.CancelJob(arguments.job, arguments.reason);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  return {JobJson(*job), absl::StrCat(job->spec().name(), " ", StateName(job->state()), "\n")};
}

Outcome Pools(Client& client) {
  const absl::StatusOr<v1::ListPoolsResponse> pools = client.ListPools();
  if (!pools.ok()) return ErrorOfCall(pools.status(), client.address());
  return {PoolsJson(*pools), PoolsTable(*pools)};
}

Outcome Checkpoints(const Arguments& arguments, Client& client) {
  const auto checkpoints = client.ListCheckpoints(arguments.job);
  if (!checkpoints.ok()) return ErrorOfCall(checkpoints.status(), client.address());
  return {CheckpointsJson(*checkpoints), CheckpointsTable(*checkpoints)};
}

}  // namespace

Outcome RunCommand(const Arguments& arguments, Client& client, const Environment& environment) {
  if (arguments.command == "submit") return Submit(arguments, client, environment);
  if (arguments.command == "watch") return Watch(arguments, client, environment);
  if (arguments.command == "get") return Get(arguments, client, environment);
  if (arguments.command == "list") return List(arguments, client, environment);
  if (arguments.command == "cancel") return Cancel(arguments, client, environment);
  if (arguments.command == "pools") return Pools(client);
  if (arguments.command == "export") return Export(arguments, &client, environment);
  if (arguments.command == "checkpoints") return Checkpoints(arguments, client);
  return CliError{.code = "INTERNAL",
                  .message = absl::StrCat("no such command: ", arguments.command)};
}

}  // namespace longhaul::cli
