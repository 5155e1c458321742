#include "common/command_line/output_end.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace longhaul
