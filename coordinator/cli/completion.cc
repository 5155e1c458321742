#include "coordinator/cli/completion.h"

#include <memory>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/fish_completion.h"
#include "coordinator/cli/lm_program.h"

namespace longhaul::cli {
namespace {

void AppendOptions(const CLI::App& app, std::vector<std::string>* words) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words->push_back("--" + name);
    for (const std::string& name : option->get_snames()) words->push_back("-" + name);
  }
}

// The words that may follow the command, and whether names of jobs may.
struct Words {
  std::vector<std::string> words;
  bool jobs = false;
};

Words WordsOf(const CLI::App& command, const std::vector<std::string>& global) {
  Words result{.words = global, .jobs = TakesJob(command)};
  AppendOptions(command, &result.words);
  for (const CLI::App* inner : command.get_subcommands({})) {
    result.words.push_back(inner->get_name());
    AppendOptions(*inner, &result.words);
  }
  if (command.get_name() == "completion")
    result.words.insert(result.words.end(), {"bash", "zsh", "fish"});
  return result;
}

// $1 is the command's name, or empty; the other arguments name the coordinator.
std::string WordsFunction(const CLI::App& app) {
  std::vector<std::string> global;
  AppendOptions(app, &global);
  std::vector<std::string> top = global;
  std::string text =
      R"sh(_longhaul_jobs() { longhaul list --names --limit 200 --timeout 2s "$@" 2>/dev/null; }
_longhaul_words() {
  local command="$1"
  shift
  case "$command" in
)sh";
  for (const CLI::App* command : app.get_subcommands({})) {
    const Words words = WordsOf(*command, global);
    absl::StrAppend(&text, "    ", command->get_name(), ") ",
                    words.jobs ? "_longhaul_jobs \"$@\"; " : "", "echo '",
                    absl::StrJoin(words.words, " "), "' ;;\n");
    top.push_back(command->get_name());
  }
  absl::StrAppend(&text, "    *) echo '", absl::StrJoin(top, " "), "' ;;\n  esac\n}\n");
  return text;
}

// The command is the first word behind the program's name that is no option and no value of one.
constexpr char kBash[] = R"sh(_longhaul() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" word before=""
  local -a connection=()
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$before" in
      --server|--context|--tls-ca|--tls-certificate|--tls-key|--token-file) connection+=("$before" "$word") ;;
      -o|--output|--timeout) ;;
      *) case "$word" in -*) ;; *) [ -n "$command" ] || command="$word" ;; esac ;;
    esac
    before="$word"
  done
  case "$previous" in
    -o|--output) COMPREPLY=($(compgen -W "table json jsonl yaml" -- "$current")) ;;
    --context) COMPREPLY=($(compgen -W "$(longhaul contexts --names 2>/dev/null)" -- "$current")) ;;
    -f|--file|--tls-ca|--tls-certificate|--tls-key|--token-file|--data-dir) COMPREPLY=($(compgen -f -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$(_longhaul_words "$command" "${connection[@]}")" -- "$current")) ;;
  esac
}
complete -o filenames -F _longhaul longhaul
)sh";

constexpr char kZsh[] = R"sh(_longhaul() {
  local command="" word before=""
  local -a connection=()
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$before" in
      --server|--context|--tls-ca|--tls-certificate|--tls-key|--token-file) connection+=("$before" "$word") ;;
      -o|--output|--timeout) ;;
      *) case "$word" in -*) ;; *) [ -n "$command" ] || command="$word" ;; esac ;;
    esac
    before="$word"
  done
  case "${words[CURRENT-1]}" in
    -o|--output) compadd table json jsonl yaml ;;
    --context) compadd -- $(longhaul contexts --names 2>/dev/null) ;;
    -f|--file|--tls-ca|--tls-certificate|--tls-key|--token-file|--data-dir) _files ;;
    *) compadd -- $(_longhaul_words "$command" "${(@)connection}") ;;
  esac
}
compdef _longhaul longhaul
)sh";

}  // namespace

bool TakesJob(const CLI::App& command) {
  if (IsLmCommand({command.get_name()}) || command.get_name() == "predict") return true;
  for (const CLI::Option* option : command.get_options()) {
    if (absl::StartsWith(option->get_name(), "JOB")) return true;
  }
  return false;
}

std::string CompletionScript(const std::string& shell) {
  Arguments unused;
  const std::unique_ptr<CLI::App> made = MakeApp(unused);
  const CLI::App& app = *made;
  if (shell == "fish") return FishCompletion(app);
  if (shell == "zsh") return absl::StrCat("#compdef longhaul\n", WordsFunction(app), kZsh);
  return WordsFunction(app) + kBash;
}

}  // namespace longhaul::cli
