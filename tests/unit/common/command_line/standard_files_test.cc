#include "common/command_line/standard_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <initializer_list>

namespace longhaul {
namespace {

// The program of a test with some of the three closed.
void OpenAFileWithout(std::initializer_list<int> closed) {
  for (const int file : closed) close(file);
  KeepStandardFiles();
  if (open("/dev/zero", O_RDWR) <= STDERR_FILENO) _exit(1);
  char byte = 0;
  for (const int file : closed) {
    const ssize_t done = file == STDIN_FILENO ? read(file, &byte, 1) : write(file, &byte, 1);
    if (done >= 0) _exit(2);
  }
  _exit(0);
}

TEST(StandardFilesTest, NoOtherFileGetsTheirNumbers) {
  for (const std::initializer_list<int>& closed :
       {std::initializer_list<int>{}, {0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    EXPECT_EXIT(OpenAFileWithout(closed), testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace longhaul
