#include "common/base/program_beside.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(ProgramBesideTest, LiesInTheFolderOfThisProgram) {
  EXPECT_EQ(access(ProgramBeside("common_base_test").c_str(), X_OK), 0);
  EXPECT_EQ(ProgramBeside("another"), FolderOfProgram() + "/another");
}

}  // namespace
}  // namespace longhaul
