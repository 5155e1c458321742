// Completion scripts, made from the commands and options that the program has.
#pragma once

#include <string>

#include "CLI/App.hpp"

namespace longhaul::cli {

// `shell`: "bash", "zsh" or "fish".
std::string CompletionScript(const std::string& shell);

// Whether names of jobs may follow the command.
bool TakesJob(const CLI::App& command);

}  // namespace longhaul::cli
