#include "common/http/pages.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(PagesTest, ParametersAreDecoded) {
  const PageRequest request{.query = "job=a%20b&empty=&job=second"};
  EXPECT_EQ(request.Parameter("job"), "a b");
  EXPECT_EQ(request.Parameter("empty"), "");
  EXPECT_EQ(request.Parameter("none"), "");
}

TEST(PagesDeathTest, APathHasOnePage) {
  Pages pages;
  const auto page = [](const PageRequest&) { return Page(); };
  pages.Add("/a", page);
  EXPECT_DEATH(pages.Add("/a", page), "/a");
  EXPECT_DEATH(pages.Add("b", page), "b");
}

}  // namespace
}  // namespace longhaul
