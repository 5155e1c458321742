#include "coordinator/cli/fish_completion.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/completion.h"

namespace longhaul::cli {
namespace {

// As in the other shells, the command is the first word that is neither an option nor the value of
// one, of a group (GROUPS) with the word that follows; and the options of the connection count for
// the names of jobs.
constexpr char kFunctions[] = R"sh(function __longhaul_command
  set -l value 0
  set -l path ''
  for word in (commandline -opc)[2..-1]
    if test $value = 1
      set value 0
      continue
    end
    switch $word
      case --server --context --tls-ca --tls-certificate --tls-key --token-file -o --output --timeout
        set value 1
      case '-*'
      case '*'
        switch "$path"
          case GROUPS
            set path (string trim "$path $word")
        end
    end
  end
  test -n "$path"; and echo $path
end
function __longhaul_is
  contains -- (__longhaul_command; or echo none) $argv
end
function __longhaul_jobs
  set -l connection
  set -l before
  for word in (commandline -opc)[2..-1]
    switch "$before"
      case --server --context --tls-ca --tls-certificate --tls-key --token-file
        set -a connection $before $word
    end
    set before $word
  end
  longhaul list --names --limit 200 --timeout 2s $connection 2>/dev/null
end
complete -c longhaul -f
)sh";

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

// The first sentence of a help text.
std::string Brief(const std::string& help) { return Quoted(help.substr(0, help.find(". "))); }

// A condition under which the command is the one of the line.
std::string When(const std::string& command) {
  return absl::StrCat(" -n '__longhaul_is ",
                      absl::StrContains(command, ' ') ? absl::StrCat("\"", command, "\"") : command,
                      "'");
}

// `when`: " -n '...'" or empty.
void AddFishOption(const CLI::Option& option, const std::string& when, std::string* text) {
  if (option.get_lnames().empty() && option.get_snames().empty()) return;
  absl::StrAppend(text, "complete -c longhaul", when);
  for (const std::string& name : option.get_lnames()) absl::StrAppend(text, " -l ", name);
  for (const std::string& name : option.get_snames()) absl::StrAppend(text, " -s ", name);
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames()[0];
  if (option.get_items_expected_min() > 0) {
    absl::StrAppend(text, TakesFile(option) ? " -r -F" : " -x");
    if (name == "output") absl::StrAppend(text, " -a 'table json jsonl yaml'");
    if (name == "context") absl::StrAppend(text, " -a '(longhaul contexts --names 2>/dev/null)'");
  }
  absl::StrAppend(text, " -d ", Brief(option.get_description()), "\n");
}

// `before`: the command around it; none: there is none.
void AddFishCommand(const CLI::App& command, const std::string& before, std::string* text) {
  const std::string name = PathOf(command), at = When(name);
  absl::StrAppend(text, "complete -c longhaul", When(before), " -a ", command.get_name(), " -d ",
                  Brief(command.get_description()), "\n");
  if (TakesJob(command))
    absl::StrAppend(text, "complete -c longhaul", at, " -a '(__longhaul_jobs)'\n");
  for (const CLI::Option* option : command.get_options()) AddFishOption(*option, at, text);
  for (const CLI::App* inner : command.get_subcommands({})) AddFishCommand(*inner, name, text);
}

}  // namespace

std::string FishCompletion(const CLI::App& app) {
  const auto quoted = [](const std::vector<std::string>& texts, const char* quote) {
    return absl::StrCat(quote, absl::StrJoin(texts, absl::StrCat(quote, " ", quote)), quote);
  };
  std::string text = absl::StrReplaceAll(kFunctions, {{"GROUPS", quoted(GroupsOf(app), "'")}});
  for (const CLI::Option* option : app.get_options()) AddFishOption(*option, "", &text);
  for (const CLI::App* command : app.get_subcommands({})) AddFishCommand(*command, "none", &text);
  absl::StrAppend(&text, "complete -c longhaul -n '__longhaul_is ", quoted(CommandsOfPaths(), "\""),
                  "' -F\n"
                  "complete -c longhaul -n '__longhaul_is completion' -a 'bash zsh fish'\n");
  return text;
}

}  // namespace longhaul::cli
