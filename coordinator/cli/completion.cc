#include "coordinator/cli/completion.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

// The words that may follow the command.
std::vector<std::string> WordsOf(const CLI::App& command, std::vector<std::string> words) {
  AppendOptions(command, &words);
  for (const CLI::App* inner : command.get_subcommands({})) words.push_back(inner->get_name());
  if (command.get_name() == "completion") words.insert(words.end(), {"bash", "zsh", "fish"});
  std::vector<std::string> once;
  for (const std::string& word : words) {
    if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(word);
  }
  return once;
}

// A pattern of `case`.
std::string PatternOf(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) {
    const bool plain = !text.empty() && !absl::StrContains(text, ' ');
    quoted.push_back(plain ? text : absl::StrCat("\"", text, "\""));
  }
  return absl::StrJoin(quoted, "|");
}

void AddWordsOf(const CLI::App& app, const std::vector<std::string>& global, std::string* text) {
  for (const CLI::App* command : app.get_subcommands({})) {
    absl::StrAppend(text, "    ", PatternOf({PathOf(*command)}), ") ",
                    TakesJob(*command) ? "_longhaul_jobs \"$@\"; " : "", "echo '",
                    absl::StrJoin(WordsOf(*command, global), " "), "' ;;\n");
    AddWordsOf(*command, global, text);
  }
}

// $1 is the command, with those around it, or empty; the other arguments name the coordinator.
std::string WordsFunction(const CLI::App& app) {
  std::vector<std::string> global;
  AppendOptions(app, &global);
  std::string text =
      R"sh(_longhaul_jobs() { longhaul list --names --limit 200 --timeout 2s "$@" 2>/dev/null; }
_longhaul_words() {
  local command="$1"
  shift
  case "$command" in
)sh";
  AddWordsOf(app, global, &text);
  absl::StrAppend(&text, "    *) echo '", absl::StrJoin(WordsOf(app, {}), " "),
                  "' ;;\n  esac\n}\n");
  return text;
}

// Options whose value is a file or folder.
void AddFileOptions(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* option : app.get_options()) {
    if (!TakesFile(*option)) continue;
    for (const std::string& name : option->get_lnames()) {
      if (std::find(names->begin(), names->end(), "--" + name) == names->end())
        names->push_back("--" + name);
    }
  }
  for (const CLI::App* command : app.get_subcommands({})) AddFileOptions(*command, names);
}

// The command is the first word behind the program's name that is no option and no value of one; of
// a group (GROUPS) with the word that follows.
constexpr char kBash[] = R"sh(_longhaul() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" word before=""
  local -a connection=()
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$before" in
      --server|--context|--tls-ca|--tls-certificate|--tls-key|--token-file) connection+=("$before" "$word") ;;
      -o|--output|--timeout) ;;
      *) case "$word" in
           -*) ;;
           *) case "$command" in GROUPS) command="${command:+$command }$word" ;; esac ;;
         esac ;;
    esac
    before="$word"
  done
  case "$previous" in
    -o|--output) COMPREPLY=($(compgen -W "table json jsonl yaml" -- "$current")) ;;
    --context) COMPREPLY=($(compgen -W "$(longhaul contexts --names 2>/dev/null)" -- "$current")) ;;
    -f|--file|--tls-ca|--tls-certificate|--tls-key|--token-file|--data-dir) COMPREPLY=($(compgen -f -- "$current")) ;;
    FILES) COMPREPLY=($(compgen -f -- "$current")) ;;
    *)
      COMPREPLY=($(compgen -W "$(_longhaul_words "$command" "${connection[@]}")" -- "$current"))
      case "$command" in PATHS) COMPREPLY+=($(compgen -f -- "$current")) ;; esac ;;
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
      *) case "$word" in
           -*) ;;
           *) case "$command" in GROUPS) command="${command:+$command }$word" ;; esac ;;
         esac ;;
    esac
    before="$word"
  done
  case "${words[CURRENT-1]}" in
    -o|--output) compadd table json jsonl yaml ;;
    --context) compadd -- $(longhaul contexts --names 2>/dev/null) ;;
    -f|--file|--tls-ca|--tls-certificate|--tls-key|--token-file|--data-dir) _files ;;
    FILES) _files ;;
    *)
      compadd -- $(_longhaul_words "$command" "${(@)connection}")
      case "$command" in PATHS) _files ;; esac ;;
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

std::string PathOf(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const std::string before =
      parent == nullptr || parent->get_parent() == nullptr ? "" : PathOf(*parent) + " ";
  return parent == nullptr ? "" : before + command.get_name();
}

std::vector<std::string> GroupsOf(const CLI::App& app) {
  std::vector<std::string> groups;
  if (!app.get_subcommands({}).empty()) groups.push_back(PathOf(app));
  for (const CLI::App* command : app.get_subcommands({})) {
    for (std::string& group : GroupsOf(*command)) groups.push_back(std::move(group));
  }
  return groups;
}

bool TakesFile(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool named = absl::StrContains(type, "FILE") || absl::StrContains(type, "DIR") ||
                     absl::StrContains(type, "FOLDER") || absl::StrContains(type, "PATH");
  return named && type != "PATH=VALUE" && !absl::StrContains(type, '|') &&
         option.get_items_expected_min() > 0;
}

const std::vector<std::string>& CommandsOfPaths() {
  static const auto* const kCommands = new std::vector<std::string>{
      "data check", "graph info", "graph predict", "graph import ogb", "graph import graphbolt",
      "eval",       "sample",     "export"};
  return *kCommands;
}

std::string CompletionScript(const std::string& shell) {
  Arguments unused;
  const std::unique_ptr<CLI::App> made = MakeApp(unused);
  const CLI::App& app = *made;
  if (shell == "fish") return FishCompletion(app);
  std::vector<std::string> files;
  AddFileOptions(app, &files);
  const std::string function =
      absl::StrReplaceAll(shell == "zsh" ? kZsh : kBash, {{"GROUPS", PatternOf(GroupsOf(app))},
                                                          {"FILES", PatternOf(files)},
                                                          {"PATHS", PatternOf(CommandsOfPaths())}});
  return absl::StrCat(shell == "zsh" ? "#compdef longhaul\n" : "", WordsFunction(app), function);
}

}  // namespace longhaul::cli
