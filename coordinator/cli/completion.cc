#include "coordinator/cli/completion.h"

#include <memory>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/arguments.h"

namespace longhaul::cli {
namespace {

void AppendOptions(const CLI::App& app, std::vector<std::string>* words) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words->push_back("--" + name);
    for (const std::string& name : option->get_snames()) words->push_back("-" + name);
  }
}

// $1 is the first function argument: the command's name, or empty.
std::string WordsFunction(const CLI::App& app) {
  std::string text = "_longhaul_words() {\n  case \"$1\" in\n";
  std::vector<std::string> global;
  AppendOptions(app, &global);
  std::vector<std::string> top = global;
  for (const CLI::App* command : app.get_subcommands({})) {
    std::vector<std::string> words = global;
    AppendOptions(*command, &words);
    for (const CLI::App* inner : command->get_subcommands({})) {
      words.push_back(inner->get_name());
      AppendOptions(*inner, &words);
    }
    if (command->get_name() == "completion") words.insert(words.end(), {"bash", "zsh"});
    absl::StrAppend(&text, "    ", command->get_name(), ") echo '", absl::StrJoin(words, " "),
                    "' ;;\n");
    top.push_back(command->get_name());
  }
  absl::StrAppend(&text, "    *) echo '", absl::StrJoin(top, " "), "' ;;\n  esac\n}\n");
  return text;
}

// The command is the first word behind the program's name that does not begin with '-'.
constexpr char kBash[] = R"sh(_longhaul() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) command="$word"; break ;; esac
  done
  case "$previous" in
    -o|--output) COMPREPLY=($(compgen -W "table json yaml" -- "$current")) ;;
    -f|--file) COMPREPLY=($(compgen -f -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$(_longhaul_words "$command")" -- "$current")) ;;
  esac
}
complete -o filenames -F _longhaul longhaul
)sh";

constexpr char kZsh[] = R"sh(_longhaul() {
  local command="" word
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) ;; *) command="$word"; break ;; esac
  done
  case "${words[CURRENT-1]}" in
    -o|--output) compadd table json yaml ;;
    -f|--file) _files ;;
    *) compadd -- $(_longhaul_words "$command") ;;
  esac
}
compdef _longhaul longhaul
)sh";

}  // namespace

std::string CompletionScript(const std::string& shell) {
  Arguments unused;
  const std::unique_ptr<CLI::App> made = MakeApp(unused);
  const CLI::App& app = *made;
  if (shell == "zsh") return absl::StrCat("#compdef longhaul\n", WordsFunction(app), kZsh);
  return WordsFunction(app) + kBash;
}

}  // namespace longhaul::cli
