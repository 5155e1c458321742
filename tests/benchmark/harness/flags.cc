#include "tests/benchmark/harness/flags.h"

#include <limits>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "common/base/exit_code.h"

namespace longhaul::benchmark {
namespace {

void AddFlag(CLI::App& app, const Flag& flag, bool* value) {
  app.add_flag(flag.name, *value, flag.meaning);
}

void AddFlag(CLI::App& app, const Flag& flag, std::string* value) {
  CLI::Option* const option = app.add_option(flag.name, *value, flag.meaning);
  if (!flag.choices.empty()) option->check(CLI::IsMember(flag.choices));
}

template <typename Number>
requires std::is_arithmetic_v<Number>
void AddFlag(CLI::App& app, const Flag& flag, Number* value) {
  CLI::Option* const option = app.add_option(flag.name, *value, flag.meaning);
  if (!flag.least) option->check(CLI::PositiveNumber);
  if (flag.least || flag.most) {
    option->check(CLI::Range(flag.least.value_or(std::numeric_limits<double>::lowest()),
                             flag.most.value_or(std::numeric_limits<double>::max())));
  }
}

}  // namespace

std::optional<int> ReadFlags(const std::string& about, int argc, char** argv,
                             const std::vector<Flag>& flags) {
  CLI::App app{about};
  for (const Flag& flag : flags)
    std::visit([&](auto* value) { AddFlag(app, flag, value); }, flag.value);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitBadArguments;
  }
  return std::nullopt;
}

}  // namespace longhaul::benchmark
