// Completion scripts, made from the commands and options that the program has.
#pragma once

#include <string>

#include "CLI/App.hpp"

namespace longhaul::cli {

// `shell`: "bash" or "zsh".
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace longhaul::cli
