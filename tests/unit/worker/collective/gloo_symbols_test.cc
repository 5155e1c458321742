#include "worker/collective/gloo_symbols.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(GlooSymbolsTest, ResolveToLibgloo) { EXPECT_EQ(CheckGlooSymbols(), absl::OkStatus()); }

}  // namespace
}  // namespace longhaul
