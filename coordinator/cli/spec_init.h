// Job specs to begin from: the examples of deploy/examples, kept in the program.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/outcome.h"

namespace longhaul::cli {

std::vector<std::string> SpecTemplateNames();

// The spec with its comments; with -o json {from, text}. A usage error: no such template.
Outcome SpecInit(const std::string& from);

}  // namespace longhaul::cli
