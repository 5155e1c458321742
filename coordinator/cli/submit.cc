#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/load.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/hugging_face_model.h"
#include "coordinator/cli/message_json.h"
#include "coordinator/cli/spec_file.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"
#include "coordinator/cli/watch.h"
#include "coordinator/cli/yaml_writer.h"

namespace longhaul::cli {
namespace {

// The job at its end, or why it cannot be known.
Outcome WaitForEnd(const Arguments& arguments, const std::string& job, WatchOptions options,
                   Client& client, const Environment& environment) {
  if (arguments.timeout_given) options.deadline = environment.clock.Now() + arguments.timeout;
  Progress progress(environment.err, environment.err_is_terminal);
  const absl::StatusOr<v1::Job> ended =
      WatchToEnd(client, environment.clock, job, options, progress);
  if (!ended.ok()) return ErrorOfCall(ended.status(), client.address());
  Outcome outcome(JobJson(*ended), JobTable(*ended, environment.clock.Now()));
  if (ended->state() == v1::COMPLETED) return outcome;
  outcome.error = CliError{.exit = ExitCode::kFailed,
                           .code = absl::StrCat("JOB_", StateName(ended->state())),
                           .message = absl::StrCat("job ", ended->spec().name(), ": ",
                                                   ended->has_error() ? ended->error().message()
                                                                      : StateName(ended->state())),
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

}  // namespace

Outcome Submit(const Arguments& arguments, Client& client, const Environment& environment) {
  const absl::StatusOr<std::string> text = arguments.file == "-"
                                               ? ReadText(environment.in, "standard input")
                                               : ReadTextFile(arguments.file);
  if (!text.ok()) return UsageError(std::string(text.status().message()));
  std::vector<SpecViolation> violations;
  absl::StatusOr<v1::JobSpec> spec = ParseJobSpec(*text, arguments.overrides, &violations);
  if (!spec.ok()) return ErrorOfSpec(spec.status(), violations);
  violations = ResolveHuggingFaceModel(*spec);
  if (!violations.empty()) return ErrorOfSpec(ViolationsToStatus(violations), violations);

  v1::SubmitJobRequest request;
  *request.mutable_spec() = *std::move(spec);
  request.set_validate_only(arguments.dry_run);
  request.set_idempotency_token(arguments.token);
  const absl::StatusOr<v1::SubmitJobResponse> response = client.SubmitJob(request);
  if (!response.ok()) return ErrorOfCall(response.status(), client.address());
  const v1::Job& job = response->job();
  TellWarnings(job, environment);

  const absl::Time now = environment.clock.Now();
  if (arguments.dry_run) return {JobJson(job), DryRunTable(job)};
  if (!response->created()) {
    environment.err << "job " << job.spec().name() << " exists already with this spec" << std::endl;
  }
  if (arguments.wait || arguments.follow) {
    return WaitForEnd(arguments, job.id(), {.contacted = true, .quiet = !arguments.follow}, client,
                      environment);
  }
  return {JobJson(job), JobTable(job, now)};
}

Outcome Watch(const Arguments& arguments, Client& client, const Environment& environment) {
  return WaitForEnd(arguments, arguments.job, {}, client, environment);
}

}  // namespace longhaul::cli
