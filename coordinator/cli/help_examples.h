// Examples of each command, as its --help shows them. A test runs every one of them against live
// processes.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace longhaul::cli {

// Shell commands, in the order of the help; `job` names in them are those of the quickstart. Empty:
// `command` ("submit", "spec explain") has none.
struct Example {
  std::string command, about;
};
std::vector<Example> ExamplesOf(absl::string_view command);

// "Examples:" and them, aligned. Empty: there are none.
std::string ExamplesText(absl::string_view command);

}  // namespace longhaul::cli
