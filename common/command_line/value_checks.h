// Checks of options' values. CLI11's own name types and quote nothing. Used as
// app.add_option(...)->check(OneOf({"bash", "zsh"})).
// Help pages do not show them: the option's words say which values it takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/time/time.h"

namespace longhaul {

// "'fish' is not one of bash, zsh"
CLI::Validator OneOf(std::vector<std::string> values);

// "'abc' is not a whole number from 1 to 256". Nor is 010: CLI11 would read it in base 8. So every
// option that is a whole number needs this check.
CLI::Validator WholeNumber(int64_t least, int64_t most);
// The number of a token in a vocabulary, or -1 for none.
inline CLI::Validator TokenNumber() { return WholeNumber(-1, int64_t{1} << 40); }

// "'10s' is not a number from 0 to 86400"
CLI::Validator Number(double least, double most);

// "'often' is not a duration from 1s to 1h, for example 90s or 10m"
CLI::Validator TimeSpan(absl::Duration least, absl::Duration most);
// The time of a text that TimeSpan accepts.
absl::Duration CheckedTime(const std::string& text);

}  // namespace longhaul
