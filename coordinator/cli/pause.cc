#include "coordinator/cli/pause.h"

#include <algorithm>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/results.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

// Between two looks at a job that is pausing.
constexpr absl::Duration kLookAgain = absl::Milliseconds(500);

Outcome Show(const v1::Job& job) {
  return {JobJson(job),
          absl::StrCat(Printable(job.spec().name()), " ", StateName(job.state()), "\n")};
}

// Waits until the job is not PAUSING any more.
absl::StatusOr<v1::Job> AwaitPause(v1::Job job, absl::Time deadline, Client& client,
                                   const Environment& environment) {
  absl::Time heard = environment.clock.Now();
  while (job.state() == v1::PAUSING) {
    const absl::Time now = environment.clock.Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "job ", job.spec().name(), " has not paused in time; it still will",
          job.waiting_for().empty() ? "" : absl::StrCat(": it waits for ", job.waiting_for())));
    }
    environment.clock.SleepUntil(std::min(deadline, now + kLookAgain));
    absl::StatusOr<v1::Job> seen = client.GetJob(job.id());
    const bool away = absl::IsUnavailable(seen.status()) && now - heard <= kSilentMax;
    if (!seen.ok() && !away) return seen.status();
    if (!seen.ok()) continue;
    heard = environment.clock.Now();
    job = *std::move(seen);
  }
  return job;
}

}  // namespace

void AddPauseCommands(CLI::App& app, Arguments& arguments) {
  CLI::App* pause = AddJobCommand(app, arguments, "pause", "Pause a job and release its pools");
  pause->add_option("--reason", arguments.reason,
                    "Reason to show with the job until it is resumed");
  pause->add_flag("--wait", arguments.wait, "Wait until its pools have stopped");
  AddJobCommand(app, arguments, "resume", "Queue a paused job; it continues from its last commit");
}

Outcome Pause(const Arguments& arguments, Client& client, const Environment& environment) {
  absl::StatusOr<v1::Job> job = client.PauseJob(arguments.job, arguments.reason);
  if (job.ok() && arguments.wait)
    job = AwaitPause(*std::move(job), DeadlineOf(arguments, environment), client, environment);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  const bool pauses = job->state() == v1::PAUSING || job->state() == v1::PAUSED;
  if (pauses || job->state() == v1::COMPLETED || !arguments.wait) return Show(*job);
  return CliError{
      .exit = ExitCode::kFailed,
      .code = "FAILED_PRECONDITION",
      .message = absl::StrCat("job ", job->spec().name(), " is ", StateName(job->state()),
                              ", and was not paused"),
      .hint = absl::StrCat("`longhaul events ", job->spec().name(), "` shows what happened")};
}

Outcome Resume(const Arguments& arguments, Client& client, const Environment&) {
  const absl::StatusOr<v1::Job> job = client.ResumeJob(arguments.job);
  if (!job.ok()) return ErrorOfCall(job.status(), client.address());
  return Show(*job);
}

}  // namespace longhaul::cli
