#include "common/base/names.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul {
namespace {

TEST(NamesTest, NamesOfJobsAndPools) {
  for (const char* good : {"a", "site-a", "a1-", "x9"}) EXPECT_TRUE(IsName(good)) << good;
  for (const char* bad : {"", "1a", "-a", "Site", "a_b", "a b", "ä", "a/b"})
    EXPECT_FALSE(IsName(bad)) << bad;
  EXPECT_TRUE(IsName(std::string(63, 'a')));
  EXPECT_FALSE(IsName(std::string(64, 'a')));
}

TEST(NamesTest, Incarnations) {
  EXPECT_TRUE(IsIncarnation("0123456789abcdef"));
  EXPECT_TRUE(IsIncarnation(std::string(64, 'f')));
  EXPECT_FALSE(IsIncarnation(std::string(15, 'f')));
  EXPECT_FALSE(IsIncarnation(std::string(65, 'f')));
  EXPECT_FALSE(IsIncarnation("0123456789abcdeF"));
  EXPECT_FALSE(IsIncarnation("0123456789abcdeg"));
}

}  // namespace
}  // namespace longhaul
