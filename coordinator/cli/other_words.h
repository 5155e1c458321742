// Words of other tools: `longhaul jobs`, `longhaul job list`, `longhaul describe JOB`. They are not
// executed; the error names the command that does it.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul::cli {

// `words` is what another tool calls `command`. A command in capitals takes the user's own word.
struct OtherWord {
  absl::string_view words;    // Separated by spaces: "ls jobs ps".
  absl::string_view command;  // "list", "get JOB"
  absl::string_view what;     // "lists jobs"
};
absl::Span<const OtherWord> OtherWords();

// For a command line that `app` did not take: "`longhaul list` lists jobs". Empty: these are no
// words that are known. `args`: without the program's name.
std::string OtherWordHint(const CLI::App& app, const std::vector<std::string>& args);

}  // namespace longhaul::cli
