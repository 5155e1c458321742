#include "coordinator/cli/lm_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_join.h"
#include "common/base/compute_environment.h"
#include "common/base/program_beside.h"
#include "coordinator/cli/help_examples.h"

namespace longhaul::cli {
namespace {

constexpr char kProgram[] = "longhaul-lm";

// What the program is started with. The words outlive it. Its help pages and hints show this name,
// by which the user called.
std::vector<char*> ArgvOf(std::vector<std::string>& words) {
  words.insert(words.begin(), "longhaul");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

std::string CommandOf(const std::vector<std::string>& args) {
  return absl::StrJoin(args.begin(), args.begin() + LmCommandWords(args), " ");
}

CliError NotInstalled(const std::string& command) {
  return UsageError("'" + command + "' is a command of longhaul-lm, which is not installed",
                    "it is installed with the worker: put it next to this program or into PATH");
}

}  // namespace

int LmCommandWords(const std::vector<std::string>& args) {
  if (args.empty()) return 0;
  if (args[0] == "eval" || args[0] == "sample") return 1;
  return args.size() > 1 && args[0] == "graph" && args[1] == "predict" ? 2 : 0;
}

bool AsksForLmHelp(const std::vector<std::string>& args) {
  return IsLmCommand(args) && std::any_of(args.begin(), args.end(), [](const std::string& word) {
           return word == "--help" || word == "-h";
         });
}

std::variant<ExitCode, CliError> ShowLmHelp(std::vector<std::string> args, std::ostream& out) {
  const std::string command = CommandOf(args);
  const std::vector<char*> argv = ArgvOf(args);
  out << std::flush;
  pid_t child = 0;
  if (posix_spawn(&child, ProgramBeside(kProgram).c_str(), nullptr, nullptr, argv.data(),
                  environ) != 0 &&
      posix_spawnp(&child, kProgram, nullptr, nullptr, argv.data(), environ) != 0) {
    return NotInstalled(command);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status)) return ExitCode::kFailed;
  if (WEXITSTATUS(status) != 0) return static_cast<ExitCode>(WEXITSTATUS(status));
  out << ExamplesText(command) << "\n" << std::flush;
  return ExitCode::kOk;
}

CliError BecomeLm(std::vector<std::string> args) {
  const std::string command = CommandOf(args);
  const std::vector<char*> argv = ArgvOf(args);
  // It computes on --threads threads, wherever this process may run.
  ComputeEnvironment environment = ComputeEnvironmentOf(environ, {});
  const std::vector<char*> variables = PointersTo(environment.variables);
  execvpe(ProgramBeside(kProgram).c_str(), argv.data(), variables.data());
  execvpe(kProgram, argv.data(), variables.data());
  return NotInstalled(command);
}

}  // namespace longhaul::cli
