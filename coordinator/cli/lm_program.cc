#include "coordinator/cli/lm_program.h"

#include <unistd.h>

#include "common/base/program_beside.h"

namespace longhaul::cli {
namespace {

constexpr char kProgram[] = "longhaul-lm";

}  // namespace

bool IsLmCommand(const std::vector<std::string>& args) {
  return !args.empty() && (args[0] == "eval" || args[0] == "sample");
}

CliError BecomeLm(const std::vector<std::string>& args) {
  std::vector<std::string> words = {kProgram};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(ProgramBeside(kProgram).c_str(), argv.data());
  execvp(kProgram, argv.data());
  return UsageError("'" + args[0] + "' is a command of longhaul-lm, which is not installed here",
                    "it comes with the worker: put it beside this program, or into PATH");
}

}  // namespace longhaul::cli
