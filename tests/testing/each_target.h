// Runs a test with each instruction set for which Highway made kernels and that this machine has.
#pragma once

#include <gtest/gtest.h>

#include "hwy/targets.h"

namespace longhaul {

template <typename Test>
void OnEachTarget(Test&& test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace longhaul
