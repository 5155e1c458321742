// Completion scripts, made from the commands and options that the program has.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"

namespace longhaul::cli {

// `shell`: "bash", "zsh" or "fish".
std::string CompletionScript(const std::string& shell);

// Whether names of jobs may follow the command.
bool TakesJob(const CLI::App& command);

// "graph import edges"; of the program empty.
std::string PathOf(const CLI::App& command);
// The paths of `app` and of the commands below it that another word must follow.
std::vector<std::string> GroupsOf(const CLI::App& app);
// Those that name files or folders without an option.
const std::vector<std::string>& CommandsOfPaths();
// Whether the value of the option is a file or folder.
bool TakesFile(const CLI::Option& option);

}  // namespace longhaul::cli
