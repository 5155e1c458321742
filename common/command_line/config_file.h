// The configuration file of a daemon: YAML, whose names are the flags' without dashes. A flag
// overrides its variable, which overrides the file, which overrides the default.
//   pool: site-a
//   ranks: 2
// Externally synchronised. Parsing blocks on the disk.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/string_view.h"

namespace longhaul {

class ConfigFile {
 public:
  // Adds --config and --print-config to `app`, which outlives it. Add what the file may say with
  // Setting and Switch after this: only these are its names. ParseCommandLine throws CLI::FileError
  // for a file that cannot be used, with path, line and name; its UsageExitCode is that of another
  // file that a flag names.
  explicit ConfigFile(CLI::App& app);
  ConfigFile(const ConfigFile&) = delete;

  // An option --NAME with its variable, LONGHAUL_NAME. Its default is `value`; help pages show it.
  template <typename T>
  CLI::Option* Setting(absl::string_view name, const char* takes, T& value,
                       const std::string& help) {
    return Named(app_.add_option("--" + std::string(name), value, help)
                     ->type_name(takes)
                     ->capture_default_str());
  }
  // Likewise, true or false. `names` may end with earlier ones: "insecure,--old-name".
  CLI::Option* Switch(absl::string_view names, bool& value, const std::string& help) {
    return Named(app_.add_flag("--" + std::string(names), value, help));
  }

  // Parses the command line of the daemon, of which `argv` is the process's. If the program is to
  // end here, its exit code: what was asked for (also by --print-config) was shown, or
  // SayFlagError said what is wrong. Otherwise `misspelt` has the lines of MisspeltVariables.
  std::optional<int> Parse(int argc, const char* const* argv, std::vector<std::string>& misspelt);

  // Whether --print-config was given.
  bool print() const { return print_; }
  // What is in force after the parse of `args`, as a file that says the same, with where each value
  // comes from. A setting without a value is a comment.
  std::string Text(const std::vector<std::string>& args) const;

 private:
  CLI::Option* Named(CLI::Option* option);
  void Read(const std::string& path);
  // What is wrong with it; empty: nothing.
  std::string Take(const struct YamlSetting& setting);
  std::vector<std::string> Names() const;
  std::string SourceOf(const CLI::Option& option, const std::vector<std::string>& args) const;

  CLI::App& app_;
  bool print_ = false;
  std::string path_;
  // In the order of the help page.
  std::vector<CLI::Option*> settings_;
  // Of those that the file gave.
  std::map<const CLI::Option*, int> lines_;
};

// LONGHAUL_DATA_DIR for data-dir.
std::string VariableOf(absl::string_view name);

}  // namespace longhaul
