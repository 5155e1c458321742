#include "worker/collective/gloo_symbols.h"

#include <dlfcn.h>

#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(GlooSymbolsTest, ResolveToLibgloo) { EXPECT_EQ(CheckGlooSymbols(), absl::OkStatus()); }

// libgloo's loop calls the definition in gloo_context.cc, which yields the core.
TEST(GlooSymbolsTest, TheLoopWaitsByOurDefinition) {
  Dl_info found{}, ours{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "epoll_wait"), &found), 0);
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&CheckGlooSymbols), &ours), 0);
  EXPECT_EQ(found.dli_fbase, ours.dli_fbase) << found.dli_fname;
}

}  // namespace
}  // namespace longhaul
