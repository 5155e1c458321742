#include "coordinator/cli/cli.h"

#include <exception>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/rpc/tls.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/completion.h"
#include "coordinator/cli/data_command.h"
#include "coordinator/cli/server_address.h"

namespace longhaul::cli {
namespace {

Outcome Version() {
  return {Json{{"version", LONGHAUL_VERSION}, {"api", "longhaul.v1"}},
          absl::StrCat("longhaul ", LONGHAUL_VERSION, "\n")};
}

// The flags, each else its variable.
TlsFiles TlsFilesOf(TlsFiles files, const Environment& environment) {
  const auto fill = [&](std::string& path, const char* variable) {
    if (path.empty()) path = environment.variable(variable).value_or("");
  };
  fill(files.ca, "LONGHAUL_TLS_CA");
  fill(files.certificate, "LONGHAUL_TLS_CERTIFICATE");
  fill(files.key, "LONGHAUL_TLS_KEY");
  return files;
}

Outcome Execute(const Arguments& arguments, const Environment& environment) {
  if (arguments.command == "version") return Version();
  if (arguments.command == "data check") return CheckDataFiles(arguments);
  absl::StatusOr<std::string> address = ServerAddress(arguments.server, environment);
  if (!address.ok()) return UsageError(std::string(address.status().message()));
  absl::StatusOr<std::shared_ptr<const Tls>> tls =
      LoadTlsIfGiven(TlsFilesOf(arguments.tls, environment));
  if (!tls.ok()) return UsageError(std::string(tls.status().message()));
  Client client(*std::move(address), arguments.timeout, *std::move(tls));
  return RunCommand(arguments, client, environment);
}

ExitCode RunOrThrow(const std::vector<std::string>& args, const Environment& environment) {
  std::variant<Arguments, Help, CliError> parsed = ParseArguments(args);
  if (const auto* help = std::get_if<Help>(&parsed)) {
    environment.out << help->text << std::flush;
    return ExitCode::kOk;
  }
  if (auto* error = std::get_if<CliError>(&parsed)) {
    return Write(Outcome(std::move(*error)), OutputFormatOf(args), environment);
  }
  const Arguments& arguments = std::get<Arguments>(parsed);
  if (arguments.command == "completion") {
    environment.out << CompletionScript(arguments.shell) << std::flush;
    return ExitCode::kOk;
  }
  return Write(Execute(arguments, environment), arguments.output, environment);
}

ExitCode RunToTheEnd(const std::vector<std::string>& args, const Environment& environment) {
  try {
    return RunOrThrow(args, environment);
  } catch (const std::exception& e) {  // Of the standard library or a dependency: a fault of ours.
    return Write(Outcome(CliError{.code = "INTERNAL", .message = e.what()}), OutputFormatOf(args),
                 environment);
  }
}

}  // namespace

ExitCode Run(const std::vector<std::string>& args, const Environment& environment) {
  const ExitCode exit = RunToTheEnd(args, environment);
  if (environment.out.flush()) return exit;
  environment.err << ToText({.code = "DATA_LOSS",
                             .message = "standard output could not be written",
                             .hint = "is its disk full, or its reader gone?"},
                            environment.err_is_terminal)
                  << std::flush;
  return exit == ExitCode::kOk ? ExitCode::kFailed : exit;
}

}  // namespace longhaul::cli
