#include "coordinator/service/names.h"

#include <gtest/gtest.h>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
namespace {

TEST(NamesTest, EveryFieldAtFaultIsNamed) {
  EXPECT_TRUE(CheckPool("site-a", "0123456789abcdef").ok());
  const auto violations = FieldViolationsOf(CheckPool("", ""));
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "pool");
  EXPECT_EQ(violations[1].field, "incarnation");
}

}  // namespace
}  // namespace longhaul::coordinator
