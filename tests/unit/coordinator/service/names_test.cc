#include "coordinator/service/names.h"

#include <gtest/gtest.h>

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
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

TEST(NamesTest, EveryFieldAtFaultIsNamed) {
  EXPECT_TRUE(CheckPool("site-a", "0123456789abcdef").ok());
  const auto violations = FieldViolationsOf(CheckPool("", ""));
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "pool");
  EXPECT_EQ(violations[1].field, "incarnation");
}

}  // namespace
}  // namespace longhaul::coordinator
