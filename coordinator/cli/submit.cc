#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bytes_text.h"
#include "common/config/job_spec.h"
#include "common/config/load.h"
#include "common/io/posix_filesystem.h"
#include "common/rpc/status_details.h"
#include "common/wire/message_json.h"
#include "coordinator/cli/alone.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/forecast_view.h"
#include "coordinator/cli/initial_source.h"
#include "coordinator/cli/interrupt_note.h"
#include "coordinator/cli/spec_file.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/upload.h"
#include "coordinator/cli/views.h"
#include "coordinator/cli/watch.h"
#include "coordinator/cli/yaml_writer.h"

namespace longhaul::cli {
namespace {

// Of a job whose health is failing. `hint`: what it does now.
Outcome Unhealthy(const v1::Job& job, const std::string& hint, const Environment& environment) {
  Outcome outcome(JobJson(job),
                  JobTable(job, environment.clock.Now(), {environment.table_columns()}));
  const v1::HealthFinding worst =
      job.health().findings_size() > 0 ? job.health().findings(0) : v1::HealthFinding();
  outcome.error = CliError{.exit = ExitCode::kFailed,
                           .code = "JOB_UNHEALTHY",
                           .message = absl::StrCat("job ", job.spec().name(),
                                                   " is failing: ", Printable(worst.message())),
                           .hint = hint.empty() ? worst.hint() : hint};
  return outcome;
}

// The job at its end, or why it cannot be known. `name`: for people.
Outcome WaitForEnd(const Arguments& arguments, const std::string& job, const std::string& name,
                   WatchOptions options, Client& client, const Environment& environment) {
  if (arguments.timeout_given) options.deadline = environment.clock.Now() + arguments.timeout;
  const bool lines = arguments.output == OutputFormat::kJsonl &&
                     (arguments.command == "watch" || arguments.follow);
  if (lines) {
    options.quiet = true;
    options.on_job = [&](const v1::Job& update) {
      environment.out << JsonLine(Outcome(JobJson(update), "")) << std::endl;
      return environment.out.good();
    };
  }
  std::optional<v1::Job> unhealthy;
  if (arguments.fail_unhealthy) {
    options.on_job = [&unhealthy, shows = std::move(options.on_job)](const v1::Job& update) {
      if (shows && !shows(update)) return false;
      if (update.health().level() != v1::JobHealth::FAILING || HasEnded(update)) return true;
      unhealthy = update;
      return false;
    };
  }
  const std::string goes_on = absl::StrCat("job ", name, " continues: `longhaul watch ", name,
                                           "` shows it, `longhaul cancel ", name, "` ends it");
  // If there is a progress bar, the note begins on the next line.
  const InterruptNote note(absl::StrCat(environment.draws() ? "\n" : "", goes_on, "\n"));
  Progress progress(environment.err, environment.draws() ? environment.terminal : nullptr);
  const absl::StatusOr<v1::Job> ended =
      WatchToEnd(client, environment.clock, job, options, progress);
  if (unhealthy.has_value()) return Unhealthy(*unhealthy, goes_on, environment);
  if (!ended.ok()) {
    CliError error = ErrorOfCall(ended.status(), client.address());
    if (absl::IsDeadlineExceeded(ended.status()) && WasAnswered(ended.status()))
      error.hint = absl::StrCat(goes_on, "; --timeout extends the deadline");
    return error;
  }
  Outcome outcome(JobJson(*ended),
                  JobTable(*ended, environment.clock.Now(), {environment.table_columns()}));
  if (arguments.fail_unhealthy && ended->state() == v1::COMPLETED &&
      ended->health().level() == v1::JobHealth::FAILING)
    return Unhealthy(*ended, "", environment);
  if (ended->state() == v1::COMPLETED) return outcome;
  outcome.error = CliError{
      .exit = ExitCode::kFailed,
      .code = absl::StrCat("JOB_", StateName(ended->state())),
      .message = absl::StrCat("job ", ended->spec().name(), " is ", StateName(ended->state()),
                              ended->has_error() ? ": " : "", ended->error().message()),
      .hint = ended->error().hint()};
  return outcome;
}

// Of SubmitJob with validate_only: the job that would be made, and its spec with every default.
std::string DryRunTable(const v1::Job& job) {
  return absl::StrCat("# The spec is valid. With every default:\n",
                      WriteYaml(MessageToJson(job.spec(), JsonFields::kSet)));
}

void TellWarnings(const v1::Job& job, const Environment& environment) {
  for (const std::string& warning : job.warnings()) {
    environment.err << "warning: " << Printable(warning) << std::endl;
  }
}

// Beside the job: what it would take with the pools that are connected. Nothing depends on it, so
// an error is no error of the submission.
void TellForecast(const v1::JobSpec& spec, Client& client, const Environment& environment) {
  if (!spec.model().has_transformer()) return;
  v1::PlanJobRequest request;
  *request.mutable_spec() = spec;
  const absl::StatusOr<v1::PlanJobResponse> planned = client.PlanJob(request);
  if (!planned.ok()) {
    const auto info = ErrorInfoOf(planned.status());
    if (info.has_value() && info->reason == "NO_POOL") {
      environment.err << "forecast: none, since no pool is connected that could do this job"
                      << std::endl;
    }
    return;
  }
  for (const std::string& line : ForecastLines(planned->forecast()))
    environment.err << "forecast: " << line << std::endl;
  for (const std::string& warning : ForecastWarnings(planned->forecast()))
    environment.err << "warning: forecast: " << warning << std::endl;
}

bool LacksUpload(const absl::Status& status) {
  const auto info = ErrorInfoOf(status);
  return info.has_value() && info->reason == "UPLOAD_UNKNOWN";
}

// The server's answer. A folder of this machine is sent when the server has accepted the rest of
// the spec and does not have the folder.
absl::StatusOr<v1::SubmitJobResponse> SubmitFrom(const InitialSource& source,
                                                 const v1::SubmitJobRequest& request,
                                                 FileSystem& fs, Client& client,
                                                 const Environment& environment) {
  absl::StatusOr<v1::SubmitJobResponse> response = client.SubmitJob(request);
  if (!source.folder.has_value() || !LacksUpload(response.status()) || request.validate_only())
    return response;
  const absl::StatusOr<Uploaded> uploaded = Upload(*source.folder, client, fs, environment);
  if (!uploaded.ok()) return uploaded.status();
  environment.err << "sent " << BytesText(uploaded->sent) << " of " << source.folder->path
                  << std::endl;
  return client.SubmitJob(request);
}

// What a coordinator of this version would say, where none is reached.
Outcome DryRunHere(const v1::JobSpec& spec, const std::string& who,
                   const Environment& environment) {
  std::vector<SpecViolation> violations;
  const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec, &violations);
  if (!resolved.ok()) return ErrorOfSpec(resolved.status(), violations);
  environment.err << "checked by this program only: " << who << std::endl;
  const v1::Job job = UnstoredJob(*resolved);
  TellWarnings(job, environment);
  return {JobJson(job), DryRunTable(job)};
}

// The server's answer has room for some faults only; the rest is found here, by the same checks.
CliError Refusal(const absl::Status& status, const v1::JobSpec& spec, const std::string& address) {
  CliError error = ErrorOfCall(status, address);
  if (const std::string hint = HintOfUpload(status); !hint.empty()) error.hint = hint;
  const bool of_token = !error.fields.empty() && error.fields[0].field == "idempotency_token";
  if (of_token) return error;
  error.refusal = kSpecRefused;
  // This program does not know the model of a folder on the coordinator's machine.
  if (error.fields.empty() || spec.init().has_folder()) return error;
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(spec, &violations);
  if (violations.size() > error.fields.size()) error.fields = FieldsOf(violations);
  return error;
}

}  // namespace

Outcome Submit(const Arguments& arguments, Client& client, const Environment& environment) {
  auto read = ReadJobSpec(arguments, environment);
  if (auto* error = std::get_if<CliError>(&read)) return std::move(*error);
  v1::JobSpec spec = std::get<v1::JobSpec>(std::move(read));
  if (!arguments.alone.empty()) {
    const bool named =
        std::any_of(arguments.overrides.begin(), arguments.overrides.end(),
                    [](const std::string& set) { return absl::StartsWith(set, "name="); });
    TrainAlone(arguments.alone, named, spec);
  }
  if (std::optional<CliError> error = ResolveFolders(spec)) return *std::move(error);

  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  InitialSource source;
  if (!arguments.from.empty()) {
    auto found = FindInitialSource(arguments, *fs, client, environment, spec);
    if (auto* error = std::get_if<CliError>(&found)) return std::move(*error);
    source = std::get<InitialSource>(std::move(found));
  }
  v1::SubmitJobRequest request;
  *request.mutable_spec() = std::move(spec);
  request.set_validate_only(arguments.dry_run);
  request.set_idempotency_token(arguments.token);
  const absl::StatusOr<v1::SubmitJobResponse> response =
      SubmitFrom(source, request, *fs, client, environment);
  if (arguments.dry_run && !response.ok() && !WasAnswered(response.status())) {
    return DryRunHere(request.spec(), absl::StrCat("no coordinator answered at ", client.address()),
                      environment);
  }
  if (arguments.dry_run && source.folder.has_value() && LacksUpload(response.status())) {
    return DryRunHere(request.spec(),
                      absl::StrCat("the coordinator does not have the folder yet (",
                                   BytesText(source.folder->bytes()), ")"),
                      environment);
  }
  if (!response.ok()) {
    CliError error = Refusal(response.status(), request.spec(), client.address());
    if (!source.hub_hint.empty()) {
      error.hint = source.hub_hint;
    } else if (!source.not_here.empty() && error.hint.empty()) {
      error.hint = absl::StrCat("--from: ", source.not_here, " is not a local folder");
    }
    return error;
  }
  const v1::Job& job = response->job();
  TellWarnings(job, environment);
  if (response->created() || arguments.dry_run) TellForecast(job.spec(), client, environment);

  const absl::Time now = environment.clock.Now();
  if (arguments.dry_run) return {JobJson(job), DryRunTable(job)};
  if (!response->created()) {
    environment.err << "job " << Printable(job.spec().name()) << " already exists with this spec"
                    << std::endl;
  }
  if (arguments.wait || arguments.follow) {
    const bool shown = arguments.follow || environment.draws();
    return WaitForEnd(arguments, job.id(), job.spec().name(), {.contacted = true, .quiet = !shown},
                      client, environment);
  }
  return {JobJson(job), JobTable(job, now, {environment.table_columns()})};
}

Outcome Watch(const Arguments& arguments, Client& client, const Environment& environment) {
  return WaitForEnd(arguments, arguments.job, arguments.job, {}, client, environment);
}

Outcome Wait(const Arguments& arguments, Client& client, const Environment& environment) {
  return WaitForEnd(arguments, arguments.job, arguments.job, {.quiet = !environment.draws()},
                    client, environment);
}

}  // namespace longhaul::cli
