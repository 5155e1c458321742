#include "common/base/mutex_checks.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

// With the search on, Abseil would end the process here, since the two locks are taken in another
// order.
TEST(MutexChecksTest, TheOrderOfLocksIsNotSearched) {
  SkipLockCycleSearch();
  absl::Mutex a, b;
  for (absl::Mutex* first : {&a, &b}) {
    absl::MutexLock outer(first);
    absl::MutexLock inner(first == &a ? &b : &a);
  }
}

}  // namespace
}  // namespace longhaul
