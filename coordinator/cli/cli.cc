#include "coordinator/cli/cli.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/exit_code.h"
#include "common/base/utf8.h"
#include "common/command_line/output_end.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/completion.h"
#include "coordinator/cli/connection.h"
#include "coordinator/cli/lm_model.h"
#include "coordinator/cli/lm_program.h"

namespace longhaul::cli {
namespace {

static_assert(static_cast<int>(ExitCode::kFailed) == kExitFailed &&
              static_cast<int>(ExitCode::kConnection) == kExitRefused &&
              static_cast<int>(ExitCode::kUsage) == kExitBadArguments);

// What a request names. gRPC would fail without words.
std::optional<CliError> CannotBeSent(const Arguments& arguments) {
  for (const auto& [what, text] : {std::pair{"JOB", &arguments.job},
                                   {"--reason", &arguments.reason},
                                   {"--token", &arguments.token}}) {
    if (Utf8Prefix(*text) < text->size())
      return UsageError(absl::StrCat(what, ": found text that is not UTF-8"));
  }
  return std::nullopt;
}

Outcome Execute(const Arguments& arguments, const Environment& environment) {
  if (std::optional<Outcome> outcome = RunLocalCommand(arguments, environment))
    return *std::move(outcome);
  if (std::optional<CliError> error = CannotBeSent(arguments)) return *std::move(error);
  const absl::StatusOr<Connection> connection = ConnectionOf(arguments, environment);
  if (!connection.ok()) return UsageError(std::string(connection.status().message()));
  absl::StatusOr<ClientAccess> access = AccessOf(*connection);
  if (!access.ok()) {
    CliError error = UsageError(std::string(access.status().message()));
    if (absl::IsUnauthenticated(access.status())) {
      error.exit = ExitCode::kConnection;
      error.code = "UNAUTHENTICATED";
    }
    return error;
  }
  if (const absl::Status able = environment.before_client(); !able.ok())
    return ErrorOf(able, ExitCode::kFailed);
  Client client(connection->server, arguments.timeout, *std::move(access));
  return RunCommand(arguments, client, environment);
}

// `help eval` is `eval --help`, before longhaul-lm gets the words.
std::vector<std::string> WithHelpWord(std::vector<std::string> args) {
  if (args.size() < 2 || args[0] != "help") return args;
  args.erase(args.begin());
  args.push_back("--help");
  return args;
}

ExitCode RunOrThrow(const std::vector<std::string>& given, const Environment& environment) {
  const std::vector<std::string> args = WithLmCommandFirst(WithHelpWord(given));
  if (AsksForLmHelp(args)) {
    std::variant<ExitCode, CliError> shown = ShowLmHelp(args, environment.out);
    if (const auto* exit = std::get_if<ExitCode>(&shown)) return *exit;
    return Write(Outcome(std::get<CliError>(std::move(shown))), OutputFormatOf(args), environment);
  }
  if (IsLmCommand(args)) {
    auto words = WithLocalModel(args, environment);
    if (auto* const error = std::get_if<CliError>(&words))
      return Write(Outcome(std::move(*error)), OutputFormatOf(args), environment);
    return Write(Outcome(BecomeLm(std::get<std::vector<std::string>>(std::move(words)))),
                 OutputFormatOf(args), environment);
  }
  std::variant<Arguments, Help, CliError> parsed = ParseArguments(args);
  if (const auto* help = std::get_if<Help>(&parsed)) {
    environment.out << help->text << std::flush;
    return ExitCode::kOk;
  }
  if (auto* error = std::get_if<CliError>(&parsed)) {
    return Write(Outcome(std::move(*error)), OutputFormatOf(args), environment);
  }
  const Arguments& arguments = std::get<Arguments>(parsed);
  if (IsLmCommand(absl::StrSplit(arguments.command, ' '))) {
    return Write(Outcome(UsageError(
                     arguments.command + " comes first: longhaul " + arguments.command + " ...",
                     "its options follow it; name a coordinator by --server or LONGHAUL_CONTEXT")),
                 OutputFormatOf(args), environment);
  }
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
  return static_cast<ExitCode>(
      ExitAfterOutput(static_cast<int>(exit), environment.out, environment.err));
}

}  // namespace longhaul::cli
