#include "common/command_line/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace longhaul {

void KeepStandardFiles() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    // A new file gets the lowest free number.
    if (fcntl(file, F_GETFD) < 0)
      (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace longhaul
