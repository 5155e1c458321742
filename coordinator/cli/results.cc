#include "coordinator/cli/results.h"

#include <algorithm>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/config/checkpoint_name.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/download.h"
#include "coordinator/cli/event_view.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"
#include "coordinator/cli/watch.h"

namespace longhaul::cli {
namespace {

// Between two looks for a checkpoint that was asked for.
constexpr absl::Duration kPollPeriod = absl::Milliseconds(500);

}  // namespace

Outcome Checkpoint(const Arguments& arguments, Client& client, const Environment& environment) {
  const auto promised = client.CreateCheckpoint(arguments.job);
  if (!promised.ok()) return ErrorOfCall(promised.status(), client.address());
  if (arguments.wait) {
    const absl::Status there = AwaitCheckpoint(
        arguments.job, promised->step(), DeadlineOf(arguments, environment), client, environment);
    if (!there.ok()) return ErrorOfCall(there, client.address());
  }
  return {Json{{"job", arguments.job},
               {"step", promised->step()},
               {"path", promised->path()},
               {"written", arguments.wait}},
          absl::StrCat(Printable(arguments.job), "@", promised->step(),
                       arguments.wait ? " is written: " : " will be written: ",
                       Printable(promised->path()), "\n")};
}

Outcome Delete(const Arguments& arguments, Client& client, const Environment&) {
  const auto deleted = client.DeleteJob(arguments.job);
  if (!deleted.ok()) {
    CliError error = ErrorOfCall(deleted.status(), client.address());
    if (error.reason == "JOB_LIVE")
      error.hint = absl::StrCat("`longhaul cancel ", arguments.job, "` stops it");
    return error;
  }
  return {
      Json{{"job", arguments.job}, {"job_id", deleted->job_id()}, {"deleted", deleted->deleted()}},
      absl::StrCat(Printable(arguments.job),
                   deleted->deleted() ? " was deleted\n" : " was already deleted\n")};
}

Outcome Events(const Arguments& arguments, Client& client, const Environment& environment) {
  if (!arguments.follow) {
    const auto events = client.ListEvents(arguments.job);
    if (!events.ok()) return ErrorOfCall(events.status(), client.address());
    return {EventsJson(*events), EventsTable(*events, {environment.table_columns()})};
  }
  if (arguments.output == OutputFormat::kJson || arguments.output == OutputFormat::kYaml) {
    return UsageError("--follow prints lines, not one document",
                      "use -o jsonl for one object per event, or -o json without --follow");
  }
  const bool json = arguments.output == OutputFormat::kJsonl;
  Progress progress(environment.err, environment.terminal);
  WatchOptions options{.deadline = DeadlineOf(arguments, environment), .quiet = true};
  options.on_event = [&](const v1::JobEvent& event) {
    environment.out << (json ? EventJsonLine(event) : EventLine(event)) << std::flush;
  };
  options.on_job = [&](const v1::Job&) { return environment.out.good(); };
  const absl::StatusOr<v1::Job> ended =
      WatchToEnd(client, environment.clock, arguments.job, options, progress);
  if (!environment.out.good()) return Outcome::Nothing();  // Run says so.
  if (!ended.ok()) return ErrorOfCall(ended.status(), client.address());
  return Outcome::Nothing();
}

Outcome DownloadTo(const Arguments& arguments, Client& client, const Environment& environment) {
  const std::optional<CheckpointName> name = ParseCheckpointName(arguments.job);
  if (!name.has_value()) {
    return UsageError(absl::StrCat("'", arguments.job, "' is neither JOB nor JOB@STEP"),
                      "for example quickstart@900");
  }
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const DownloadOptions options{.out = arguments.out,
                                .deadline = DeadlineOf(arguments, environment)};
  const absl::StatusOr<Downloaded> done = Download(*name, options, client, *fs, environment);
  if (!done.ok()) return ErrorOfDownload(done.status(), client.address());
  return {Json{{"job", done->job},
               {"step", done->step},
               {"path", arguments.out},
               {"bytes", done->bytes},
               {"received_bytes", done->received}},
          absl::StrFormat("%s@%d is in %s: %s, verified%s\n", Printable(done->job), done->step,
                          Printable(arguments.out), BytesText(done->bytes),
                          done->received == 0 ? "; it was already there" : "")};
}

absl::Time DeadlineOf(const Arguments& arguments, const Environment& environment) {
  return arguments.timeout_given ? environment.clock.Now() + arguments.timeout
                                 : absl::InfiniteFuture();
}

absl::Status AwaitCheckpoint(const std::string& name, int64_t step, absl::Time deadline,
                             Client& client, const Environment& environment) {
  absl::Time heard = environment.clock.Now();
  while (true) {
    // Asked first: after the end of a job no further checkpoints come.
    const absl::StatusOr<v1::Job> job = client.GetJob(name);
    const auto checkpoints = client.ListCheckpoints(name);
    const absl::Status status = job.ok() ? checkpoints.status() : job.status();
    const absl::Time now = environment.clock.Now();
    if (!status.ok() && (!absl::IsUnavailable(status) || now - heard > kSilentMax)) return status;
    if (status.ok()) {
      heard = now;
      const auto& all = checkpoints->checkpoints();
      const bool there = std::any_of(all.begin(), all.end(), [&](const auto& checkpoint) {
        return checkpoint.step() == step;
      });
      if (there) return absl::OkStatus();
      if (Rests(*job)) {
        return absl::FailedPreconditionError(
            absl::StrCat("job ", name, " is ", StateName(job->state()), " without the checkpoint"));
      }
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the checkpoint of step ", step, " was not written in time; it still will be"));
    }
    environment.clock.SleepUntil(std::min(deadline, now + kPollPeriod));
  }
}

void AddResultCommands(CLI::App& app, Arguments& arguments) {
  AddJobCommand(app, arguments, "checkpoint",
                "Request a checkpoint of the next complete version and print its step")
      ->add_flag("--wait", arguments.wait, "Wait until it is written");
  CLI::App* download = app.add_subcommand(
      "download", "Download a checkpoint into a local folder; run it again to resume");
  download
      ->add_option("JOB[@STEP]", arguments.job,
                   "The job and the step of the checkpoint (default: the newest)")
      ->required();
  download
      ->add_option("--out", arguments.out, "Target folder; DIR.partial holds unfinished downloads")
      ->type_name("DIR")
      ->required();
  AddJobCommand(app, arguments, "events", "Show what happened to a job")
      ->add_flag("--follow", arguments.follow, "Keep showing new events until the job has ended");
  AddJobCommand(app, arguments, "delete",
                "Delete an ended job: remove its files and free its name");
}

}  // namespace longhaul::cli
