// Runs the CLI within the test's process.
#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/config/yaml_json.h"
#include "coordinator/cli/cli.h"

namespace longhaul::cli {

struct CliResult {
  int exit = -1;
  std::string out, err;
  Json envelope() const { return Json::parse(out); }
};

// Somebody presses q after so many looks.
class FakeTerminal : public Terminal {
 public:
  explicit FakeTerminal(int columns = 80, int looks = 1) : columns_(columns), looks_(looks) {}
  int columns() const override { return columns_; }
  int rows() const override { return 24; }
  bool QuitWithin(absl::Duration) override { return --looks_ <= 0; }

 private:
  const int columns_;
  int looks_;
};

struct CliRunner {
  std::map<std::string, std::string> variables;
  std::string input;
  bool terminal = false;
  Terminal* screen = nullptr;  // Where bars and live tables are drawn.
  Clock* time = nullptr;       // Null: the system's.
  bool broken_output = false;  // Nothing can be written to it.
  std::function<absl::Status()> before_client = [] { return absl::OkStatus(); };

  CliResult operator()(const std::vector<std::string>& args) const {
    std::istringstream in(input);
    std::ostringstream out, err;
    if (broken_output) out.setstate(std::ios::badbit);
    const auto clock = MakeSystemClock();
    const Environment environment{
        .in = in,
        .out = out,
        .err = err,
        .err_is_terminal = terminal,
        .out_is_terminal = terminal,
        .clock = time == nullptr ? *clock : *time,
        .variable = [this](const char* name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        .terminal = screen,
        .before_client = before_client};
    const ExitCode exit = Run(args, environment);
    return {static_cast<int>(exit), out.str(), err.str()};
  }
};

}  // namespace longhaul::cli
