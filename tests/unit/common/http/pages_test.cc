#include "common/http/pages.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(PagesDeathTest, APathHasOnePage) {
  Pages pages;
  const auto page = [](const PageRequest&) { return Page(); };
  pages.Add("/a", page);
  EXPECT_DEATH(pages.Add("/a", page), "/a");
  EXPECT_DEATH(pages.Add("b", page), "b");
}

}  // namespace
}  // namespace longhaul
