// Says what is wrong with a command line, before the program has a log: in the form that the same
// command line asks of the log.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace longhaul {

// Whether the last --log-format of a command line, or else LONGHAUL_LOG_FORMAT, says json. The rest of
// the command line may be anything.
bool AsksForJsonLog(int argc, const char* const* argv);

// A JSON line to standard error if it does, else the message alone.
void SayFlagError(const std::string& program, int argc, const char* const* argv,
                  absl::string_view message);

}  // namespace longhaul
