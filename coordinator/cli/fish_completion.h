// The completion script of fish, with the descriptions that its users see.
#pragma once

#include <string>

#include "CLI/App.hpp"

namespace longhaul::cli {

// Of the commands and options of `app`.
std::string FishCompletion(const CLI::App& app);

}  // namespace longhaul::cli
