#include "common/command_line/config_file.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/escaped_text.h"
#include "common/base/exit_code.h"
#include "common/base/nearest_name.h"
#include "common/command_line/usage_fault.h"
#include "common/config/violation_list.h"
#include "common/config/yaml_document.h"
#include "common/config/yaml_settings.h"
#include "common/io/read_only_file.h"
#include "common/logging/flag_error.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

bool IsSwitch(const CLI::Option& option) { return option.get_items_expected_min() == 0; }

// The option, or an earlier name of it that was given in its place.
const CLI::Option& GivenAs(const CLI::Option& option) {
  for (const CLI::Option* other : option.get_excludes())
    if (other->count() > 0) return *other;
  return option;
}

// Then its value is not taken from a weaker source.
bool IsGiven(const CLI::Option& option) { return GivenAs(option).count() > 0; }

// A value that ParseYamlSettings reads as `text`.
std::string ValueInYaml(const std::string& text) {
  const auto plain = [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("_./:-", c); };
  const bool is_plain = !text.empty() && (absl::ascii_isalnum(text[0]) || text[0] == '/') &&
                        text.back() != ':' && std::all_of(text.begin(), text.end(), plain) &&
                        !absl::EqualsIgnoreCase(text, "null");
  if (is_plain) return text;
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string VariableOf(absl::string_view name) {
  return absl::StrCat("LONGHAUL_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

// CLI11 calls options back in the order in which they were added, after all words and variables
// were read. So this one finds which settings have no value yet.
ConfigFile::ConfigFile(CLI::App& app) : app_(app) {
  app.add_option_function<std::string>(
         "--config", [this](const std::string& path) { Read(path); },
         "YAML file of settings that neither flags nor variables give; keys are flag names without "
         "dashes, for example 'data-dir: /srv/longhaul'. --print-config prints one")
      ->type_name("FILE")
      ->envname(VariableOf("config"));
  app.add_flag(
      "--print-config", print_,
      "Print the settings in effect and their sources, in the format of --config, and exit");
}

CLI::Option* ConfigFile::Named(CLI::Option* option) {
  settings_.push_back(option);
  return option->envname(VariableOf(option->get_single_name()));
}

void ConfigFile::Read(const std::string& path) {
  if (path.empty() || app_.get_help_ptr()->count() > 0) return;
  path_ = path;
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kYamlBytesMax);
  if (!text.ok()) {
    throw CLI::FileError(absl::StrCat("--config: ", text.status().message()),
                         StartExitCode(text.status()));
  }
  ViolationList violations;
  std::vector<std::string> faults;
  for (const YamlSetting& setting : ParseYamlSettings(*text, violations)) {
    if (const std::string fault = Take(setting); !fault.empty())
      faults.push_back(absl::StrCat("line ", setting.line, ": ", fault));
  }
  for (const SpecViolation& v : violations.all()) faults.push_back(Describe(v));
  if (!faults.empty())
    throw CLI::FileError(absl::StrCat("--config: ", path, ", ", absl::StrJoin(faults, "; ")));
}

std::string ConfigFile::Take(const YamlSetting& setting) {
  const auto at = std::find_if(settings_.begin(), settings_.end(), [&](const CLI::Option* option) {
    return option->get_single_name() == setting.name;
  });
  if (at == settings_.end()) {
    const std::string nearest = NearestName(setting.name, Names());
    return absl::StrCat("no such setting: ", setting.name,
                        nearest.empty() ? "" : absl::StrCat(" (did you mean '", nearest, "'?)"));
  }
  CLI::Option& option = **at;
  if (IsSwitch(option) && setting.value != "true" && setting.value != "false")
    return absl::StrCat(setting.name, ": '", setting.value, "' is neither true nor false");
  if (IsGiven(option)) return "";
  lines_[&option] = setting.line;
  option.add_result(setting.value);
  try {
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    return absl::StrReplaceAll(error.what(), {{option.get_name(), setting.name}});
  }
  return "";
}

std::vector<std::string> ConfigFile::Names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : settings_) names.push_back(option->get_single_name());
  return names;
}

std::string ConfigFile::SourceOf(const CLI::Option& option,
                                 const std::vector<std::string>& args) const {
  if (const auto at = lines_.find(&option); at != lines_.end())
    return absl::StrCat("--config, line ", at->second);
  if (option.count() == 0) return "default";
  // CLI11 does not name an option that help pages do not show.
  return IsAmong(args, option) ? "--" + option.get_single_name() : option.get_envname();
}

std::optional<int> ConfigFile::Parse(int argc, const char* const* argv,
                                     std::vector<std::string>& misspelt) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::optional<int> exit = ParseOrTell(app_, args, [&](const UsageFault& fault) {
    SayFlagError(app_.get_name(), argc, argv, fault.message, fault.hint);
  });
  if (exit.has_value()) return exit;
  misspelt = MisspeltVariables(app_, environ);
  if (!print_) return std::nullopt;
  std::cout << Text(args);
  for (const std::string& line : misspelt) std::cerr << "warning: " << EscapedLine(line) << "\n";
  return 0;
}

std::string ConfigFile::Text(const std::vector<std::string>& args) const {
  std::string text;
  if (!path_.empty()) text = absl::StrCat("# --config ", ValueInYaml(path_), "\n");
  for (const CLI::Option* option : settings_) {
    const std::string& name = option->get_single_name();
    const CLI::Option& given = GivenAs(*option);
    std::string value = option->get_default_str();
    if (IsSwitch(*option)) {
      value = given.count() > 0 && given.as<bool>() ? "true" : "false";
    } else if (given.count() > 0) {
      value = given.as<std::string>();
    } else if (value.empty()) {
      absl::StrAppend(&text, "# ", name, " is not set\n");
      continue;
    }
    absl::StrAppend(&text, name, ": ", ValueInYaml(value), "  # ", SourceOf(given, args), "\n");
  }
  return text;
}

}  // namespace longhaul
