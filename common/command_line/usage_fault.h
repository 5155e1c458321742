// What is wrong with a command line, in plain words, and the words that every program knows.
// Thread safety: const functions of their arguments. Nothing blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/functional/function_ref.h"

namespace longhaul {

struct UsageFault {
  std::string message;  // "--ranks: 'x' is not a whole number from 1 to 256 (LONGHAUL_RANKS)"
  std::string hint;     // "did you mean '--ranks'?", or which help page shows more. Never empty.

  // Two lines, "error: ..." and "hint: ...", without a newline at the end; as EscapedLine makes
  // them.
  std::string Text() const;
};

// Why `app` did not take `args`, which has no program name. `error` is what its parse threw.
UsageFault ExplainUsage(const CLI::App& app, const CLI::ParseError& error,
                        const std::vector<std::string>& args);

// The exit code of a program whose parse threw `error`. 0: a help page or the version is to be
// shown. kExitFailed: a file is not there or cannot be read, which may pass (StartExitCode). Else
// kExitBadArguments.
int UsageExitCode(const CLI::ParseError& error);

// Whether a word gives the option by a long name: "--ranks", "--ranks=2".
bool IsAmong(const std::vector<std::string>& args, const CLI::Option& option);

// Makes `version` and `help` of the first words what they mean: `version` alone becomes --version,
// `help a b` becomes `a b --help`. An app's own command of that name stays as it is.
std::vector<std::string> WithCommonWords(const CLI::App& app, std::vector<std::string> args);

// A line for each variable of the environment that looks like a misspelt one of `app`:
// "LONGHAUL_DATADIR is not a variable of this program; did you mean LONGHAUL_DATA_DIR?". One that
// is near to none of them, or to one that is set, may be another program's. `environment`: as
// environ.
std::vector<std::string> MisspeltVariables(const CLI::App& app, const char* const* environment);

// Parses as app.parse does, with the words above, and with "--name=" as an empty value; throws what
// it throws.
void ParseCommandLine(CLI::App& app, const std::vector<std::string>& args);

// Parses. If the program is to end here, its exit code: a help page or the version was shown, or
// `say` was told what is wrong.
std::optional<int> ParseOrTell(CLI::App& app, const std::vector<std::string>& args,
                               absl::FunctionRef<void(const UsageFault&)> say);

}  // namespace longhaul
