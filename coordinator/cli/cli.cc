#include "coordinator/cli/cli.h"

#include <exception>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/tls.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/completion.h"
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

// How this user is known. The files are read once here: what is wrong with them is the user's to mend.
absl::StatusOr<ClientAccess> AccessOf(const Arguments& arguments, const Environment& environment) {
  ClientAccess access{.files = TlsFilesOf(arguments.tls, environment),
                      .token_file = arguments.token_file};
  if (access.token_file.empty())
    access.token_file = environment.variable("LONGHAUL_TOKEN_FILE").value_or("");
  const bool token = !access.token_file.empty();
  if (token && access.files.ca.empty()) {
    return absl::InvalidArgumentError(
        "--token-file needs --tls-ca: a token is not sent in plaintext");
  }
  if (token) LH_RETURN_IF_ERROR(ReadTokenFile("--token-file", access.token_file).status());
  const bool certificate = !access.files.certificate.empty() || !access.files.key.empty();
  if (!token && !certificate && !access.files.ca.empty()) {
    LH_RETURN_IF_ERROR(CheckAuthorities(access.files.ca));
    return absl::InvalidArgumentError(
        "--tls-ca says nothing of who you are: give --token-file too, or --tls-certificate and "
        "--tls-key");
  }
  LH_ASSIGN_OR_RETURN(access.tls, token && !certificate ? Tls::LoadAuthorities(access.files.ca)
                                                        : LoadTlsIfGiven(access.files));
  return access;
}

Outcome Execute(const Arguments& arguments, const Environment& environment) {
  if (arguments.command == "version") return Version();
  if (arguments.command == "certs") return Certs(arguments);
  absl::StatusOr<std::string> address = ServerAddress(arguments.server, environment);
  if (!address.ok()) return UsageError(std::string(address.status().message()));
  absl::StatusOr<ClientAccess> access = AccessOf(arguments, environment);
  if (!access.ok()) {
    CliError error = UsageError(std::string(access.status().message()));
    if (absl::IsUnauthenticated(access.status())) {  // A certificate out of date: nothing mistyped.
      error.exit = ExitCode::kConnection;
      error.code = "UNAUTHENTICATED";
    }
    return error;
  }
  Client client(*std::move(address), arguments.timeout, *std::move(access));
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
