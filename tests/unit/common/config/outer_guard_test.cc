// What a job may specify about guard.outer.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/config/small_spec.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

TEST(OuterGuardSpecTest, TheOuterGuardIsOffUnlessAskedFor) {
  const auto off = ResolveJobSpec(Small({}));
  EXPECT_EQ(off->spec.guard().outer(), v1::OUTER_GUARD_UNSPECIFIED);
  EXPECT_EQ(off->spec.guard().outer_norm(), 0);
  const auto on = ResolveJobSpec(Small({"guard.outer=leave_out"}));
  ASSERT_TRUE(on.ok()) << on.status();
  EXPECT_EQ(on->spec.guard().outer_norm(), 10);
  EXPECT_EQ(on->spec.guard().outer_cosine(), 0.5);
  EXPECT_EQ(on->spec.guard().outer_rounds(), 5);
  const auto two = ResolveJobSpec(Small({"guard.outer=leave_out", "pools={max: 2}"}));
  EXPECT_EQ(two->spec.guard().outer_cosine(), -1);
}

TEST(OuterGuardSpecTest, RefusesAnOuterGuardThatCannotWork) {
  for (const auto& [guard, field] : std::vector<std::pair<std::string, std::string>>{
           {"{outer_norm: 5}", "guard.outer_norm"},
           {"{outer: take_all, outer_cosine: 0.5}", "guard.outer_cosine"},
           {"{outer_rounds: 5}", "guard.outer_rounds"},
           {"{outer: leave_out, outer_norm: 1.5}", "guard.outer_norm"},
           {"{outer: leave_out, outer_norm: 2e6}", "guard.outer_norm"},
           {"{outer: leave_out, outer_cosine: 1.5}", "guard.outer_cosine"},
           {"{outer: leave_out, outer_cosine: -2}", "guard.outer_cosine"},
           {"{outer: leave_out, outer_rounds: 65}", "guard.outer_rounds"},
           {"{outer: leave_out, outer_rounds: -1}", "guard.outer_rounds"}}) {
    EXPECT_THAT(FaultsWith({"guard=" + guard}), ElementsAre(field)) << guard;
  }
  EXPECT_THAT(FaultsWith({"guard.outer=leave_out", "pools={max: 1}"}), ElementsAre("guard.outer"));
  EXPECT_THAT(FaultsWith({"guard={outer: leave_out, outer_cosine: 0.5}", "pools={max: 2}"}),
              ElementsAre("guard.outer_cosine"));
}

}  // namespace
}  // namespace longhaul
