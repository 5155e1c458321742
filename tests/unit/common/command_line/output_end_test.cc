#include "common/command_line/output_end.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <iostream>
#include <sstream>

namespace longhaul {
namespace {

TEST(OutputEndTest, WhatWasWrittenKeepsTheExitCode) {
  std::ostringstream out, err;
  out << "data";
  EXPECT_EQ(ExitAfterOutput(0, out, err), 0);
  EXPECT_EQ(ExitAfterOutput(4, out, err), 4);
  EXPECT_EQ(err.str(), "");
}

TEST(OutputEndTest, WhatWasNotWrittenIsNoSuccess) {
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(ExitAfterOutput(0, out, err), 1);
  EXPECT_EQ(err.str(),
            "error: standard output could not be written (DATA_LOSS)\n"
            "hint: is its disk full, or its reader gone?\n");
  // An earlier failure tells more.
  EXPECT_EQ(ExitAfterOutput(4, out, err), 4);
}

TEST(OutputEndTest, WhatIsBufferedIsWritten) {
  const auto end = [] {
    std::cerr << "an error, ";
    std::fputs("and more", stderr);
    EndProgram(3);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(3), "an error, and more");
}

}  // namespace
}  // namespace longhaul
