// The end of every program. Output that could not be written must not pass for success, and no
// static object is destroyed beside threads that still run. Stateless. Blocks as long as the reader
// of the output does.
#pragma once

#include <ostream>

namespace longhaul {

// Flushes `out`, the standard output. If all of it was written, returns `exit`, the exit code of
// the program. Otherwise says so on `err`, as an error of the CLI, and returns kExitFailed in place
// of 0.
int ExitAfterOutput(int exit, std::ostream& out, std::ostream& err);

// Ends the process at once, after what was written has left the buffers. Threads that are detached,
// and those of libraries (gRPC, torch), may still use static objects, so none is destroyed. What
// the program itself has to give back must be given back before. The last log lines are waited for,
// but not without end (common/logging/standard_error.h).
[[noreturn]] void EndProgram(int exit);

}  // namespace longhaul
