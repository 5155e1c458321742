// What every program does with its standard output at its end: output that could not be written
// must not pass for success. Stateless. Blocks as long as the reader of the output does.
#pragma once

#include <ostream>

namespace longhaul {

// Flushes `out`, the standard output. If all of it was written, returns `exit`, the exit code of
// the program. Otherwise says so on `err`, as an error of the CLI, and returns kExitFailed in place
// of 0.
int ExitAfterOutput(int exit, std::ostream& out, std::ostream& err);

}  // namespace longhaul
