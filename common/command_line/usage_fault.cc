#include "common/command_line/usage_fault.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/escaped_text.h"
#include "common/base/exit_code.h"
#include "common/base/nearest_name.h"

namespace longhaul {
namespace {

constexpr absl::string_view kVariablePrefix = "LONGHAUL_";

// The innermost command that was found.
const CLI::App& CommandOf(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// "longhaul spec explain"
std::string NameOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name()
                           : absl::StrCat(NameOf(*parent), " ", command.get_name());
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Of the command and of those around it, whose options may follow it.
std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// Of all commands: an option may belong to another one.
void AddOptionsBelow(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::App* command : app.get_subcommands({})) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    AddOptionsBelow(*command, names);
  }
}

std::string HelpHint(const CLI::App& command) {
  const std::string name = NameOf(command);
  if (command.get_subcommands({}).empty())
    return absl::StrCat("`", name, " --help` shows its arguments");
  return absl::StrCat("`", name, " --help` shows the commands, `", name,
                      " COMMAND --help` their options");
}

bool LooksLikeOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !absl::ascii_isdigit(word[1]) && word[1] != '.';
}

UsageFault NoSuchOption(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string nearest = NearestName(name, OptionNames(command));
  // Before a command is known, the word may be any command's.
  if (std::vector<std::string> below; nearest.empty() && &command == &app) {
    AddOptionsBelow(app, below);
    nearest = NearestName(name, below);
  }
  return {absl::StrCat("no such option: ", name),
          nearest.empty() ? HelpHint(command) : absl::StrCat("did you mean '", nearest, "'?")};
}

UsageFault NoSuchCommand(const CLI::App& command, const std::string& word) {
  const std::vector<std::string> names = CommandNames(command);
  std::string prefix = command.get_parent() == nullptr ? "" : command.get_name() + " ";
  const std::string nearest = NearestNameHint(word, names);
  return {absl::StrCat("no such command: ", prefix, word),
          nearest.empty() ? HelpHint(command) : nearest};
}

// A variable gave the value that `message` ("--ranks: ...") refuses.
std::string FromVariable(const CLI::App& command, const std::string& message,
                         const std::vector<std::string>& args) {
  const std::string name = message.substr(0, message.find(':'));
  if (!absl::StartsWith(name, "--")) return "";
  const CLI::Option* option = nullptr;
  for (const CLI::App* at = &command; at != nullptr && option == nullptr; at = at->get_parent()) {
    option = at->get_option_no_throw(name);
  }
  if (option == nullptr || option->get_envname().empty()) return "";
  const char* value = std::getenv(option->get_envname().c_str());
  return IsAmong(args, *option) || value == nullptr
             ? ""
             : absl::StrCat(" (from ", option->get_envname(), ")");
}

UsageFault MissingCommand(const CLI::App& command) {
  const bool outermost = command.get_parent() == nullptr;
  return {outermost ? std::string("a command is required")
                    : absl::StrCat("`", NameOf(command), "` needs one more word: ",
                                   absl::StrJoin(CommandNames(command), " or ")),
          HelpHint(command)};
}

// `longhaul submit job.yaml`, where the file belongs to an option.
UsageFault MissingOption(const CLI::App& command, const std::string& message,
                         const std::vector<std::string>& stray) {
  const std::string name = message.substr(0, message.find(' '));
  if (stray.size() == 1 && absl::StartsWith(name, "--"))
    return {message, absl::StrCat("did you mean '", name, " ", stray[0], "'?")};
  return {message, HelpHint(command)};
}

// "--file: 1 required FILE missing" or "--file: At Most 1 required but received 2" of CLI11.
std::string MismatchText(const std::string& message) {
  if (const auto [name, count] = std::pair<absl::string_view, absl::string_view>(
          absl::StrSplit(message, absl::MaxSplits(": At Most 1 required but received ", 1)));
      !count.empty())
    return absl::StrCat(name, ": given ", count, " times, expected once");
  const size_t colon = message.find(": "), required = message.find(" required ");
  if (colon == std::string::npos || required == std::string::npos ||
      !absl::EndsWith(message, " missing"))
    return message;
  return absl::StrCat(message.substr(0, colon), ": its value is missing");
}

// "Could not convert: --insecure = maybe" of CLI11. Options with a check are refused before; what
// remains are flags.
std::string ConversionText(const std::string& message) {
  const std::vector<std::string> parts =
      absl::StrSplit(message.substr(message.find(": ") + 2), absl::MaxSplits(" = ", 1));
  if (parts.size() != 2) return message;
  return absl::StrCat(parts[0], ": '", parts[1], "' is neither true nor false");
}

// Whether all options of this long name, of any command, take a value.
bool TakesValue(const CLI::App& app, const std::string& name) {
  bool found = false, all = true;
  const std::function<void(const CLI::App&)> look = [&](const CLI::App& at) {
    if (const CLI::Option* const option = at.get_option_no_throw(name); option != nullptr) {
      found = true;
      all = all && option->get_items_expected_min() > 0;
    }
    for (const CLI::App* const command : at.get_subcommands({})) look(*command);
  };
  look(app);
  return found && all;
}

// Makes "--name=" the two words that CLI11 understands: it would take the next word for the value.
std::vector<std::string> WithEmptyValues(const CLI::App& app,
                                         const std::vector<std::string>& args) {
  std::vector<std::string> words;
  bool is_value = false, is_rest = false;
  for (const std::string& arg : args) {
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(0, equals);
    const bool takes_value = !is_value && !is_rest && absl::StartsWith(arg, "--") &&
                             arg.size() > 2 && TakesValue(app, name);
    is_rest = is_rest || (arg == "--" && !is_value);
    is_value = takes_value && equals == std::string::npos;
    if (takes_value && equals + 1 == arg.size()) {
      words.push_back(name);
      words.push_back("");
    } else {
      words.push_back(arg);
    }
  }
  return words;
}

}  // namespace

std::string UsageFault::Text() const {
  return absl::StrCat("error: ", EscapedLine(message), "\nhint: ", EscapedLine(hint));
}

UsageFault ExplainUsage(const CLI::App& app, const CLI::ParseError& error,
                        const std::vector<std::string>& args) {
  const CLI::App& command = CommandOf(app);
  const std::string what = error.what();
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // An unknown word is told before what is missing: it is often its misspelling.
    const std::vector<std::string> stray = app.remaining(true);
    for (const std::string& word : stray) {
      if (LooksLikeOption(word)) return NoSuchOption(app, command, word);
    }
    const bool wants_command = !command.get_subcommands({}).empty();
    if (wants_command)
      return stray.empty() ? MissingCommand(command) : NoSuchCommand(command, stray[0]);
    if (missing) return MissingOption(command, what, stray);
    if (!stray.empty()) return {absl::StrCat("unexpected argument: ", stray[0]), HelpHint(command)};
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return {MismatchText(what), HelpHint(command)};
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const std::string message = ConversionText(what);
    return {absl::StrCat(message, FromVariable(command, message, args)), HelpHint(command)};
  }
  // The other one is an earlier name of it, which no page shows.
  if (constexpr char kExcludes[] = " excludes "; absl::EndsWith(what, kExcludes))
    return {absl::StrCat(what.substr(0, what.size() - sizeof(kExcludes) + 1),
                         " is also given by an earlier name"),
            HelpHint(command)};
  return {absl::StrCat(what, FromVariable(command, what, args)), HelpHint(command)};
}

int UsageExitCode(const CLI::ParseError& error) {
  const int code = error.get_exit_code();
  // CLI11's own codes mean nothing outside.
  return code == 0 || code == kExitFailed ? code : kExitBadArguments;
}

bool IsAmong(const std::vector<std::string>& args, const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      const absl::string_view word = absl::StripPrefix(arg, "--");
      return word.size() < arg.size() && word.substr(0, word.find('=')) == name;
    });
  });
}

std::vector<std::string> WithCommonWords(const CLI::App& app, std::vector<std::string> args) {
  const std::vector<std::string> own = CommandNames(app);
  if (args.empty() || std::find(own.begin(), own.end(), args[0]) != own.end()) return args;
  if (args[0] == "version") args[0] = "--version";
  if (args[0] == "help") {
    args.erase(args.begin());
    args.push_back("--help");
  }
  return args;
}

std::vector<std::string> MisspeltVariables(const CLI::App& app, const char* const* environment) {
  std::vector<std::string> known, lines;
  for (const CLI::Option* option : app.get_options()) {
    if (absl::StartsWith(option->get_envname(), kVariablePrefix))
      known.push_back(option->get_envname().substr(kVariablePrefix.size()));
  }
  for (; *environment != nullptr; ++environment) {
    absl::string_view name = absl::string_view(*environment);
    name = name.substr(0, name.find('='));
    if (!absl::ConsumePrefix(&name, kVariablePrefix)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = absl::StrCat(kVariablePrefix, NearestName(name, known));
    if (meant == kVariablePrefix || std::getenv(meant.c_str()) != nullptr) continue;
    lines.push_back(absl::StrCat(kVariablePrefix, name,
                                 " is not a variable of this program; did you mean ", meant, "?"));
  }
  return lines;
}

void ParseCommandLine(CLI::App& app, const std::vector<std::string>& args) {
  std::vector<std::string> words = WithEmptyValues(app, WithCommonWords(app, args));
  std::reverse(words.begin(), words.end());  // As CLI11 wants it.
  app.parse(std::move(words));
}

std::optional<int> ParseOrTell(CLI::App& app, const std::vector<std::string>& args,
                               absl::FunctionRef<void(const UsageFault&)> say) {
  try {
    ParseCommandLine(app, args);
    return std::nullopt;
    // CLI11 reports by exceptions, also for --help.
  } catch (const CLI::ParseError& error) {
    const int code = UsageExitCode(error);
    if (code == 0) {
      app.exit(error);
    } else {
      say(ExplainUsage(app, error, args));
    }
    return code;
  }
}

}  // namespace longhaul
