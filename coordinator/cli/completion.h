// Completion scripts, made from the commands and options that the program has.
#pragma once

#include <string>

namespace longhaul::cli {

// `shell`: "bash" or "zsh".
std::string CompletionScript(const std::string& shell);

}  // namespace longhaul::cli
