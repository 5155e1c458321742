#include "common/command_line/output_end.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "common/base/exit_code.h"
#include "common/logging/standard_error.h"

namespace longhaul {

int ExitAfterOutput(int exit, std::ostream& out, std::ostream& err) {
  if (out.flush()) return exit;
  err << "error: standard output could not be written (DATA_LOSS)\n"
         "hint: is its disk full, or its reader gone?\n"
      << std::flush;
  return exit == 0 ? kExitFailed : exit;
}

void EndProgram(int exit) {
  std::cout.flush();
  std::fflush(nullptr);
  FlushStandardError();
  _exit(exit);
}

}  // namespace longhaul
