// Scalar definitions of the kernels, in double, and what the tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/each_target.h"

namespace longhaul::kernels {

// Values in [-1, 1), at an address that is no multiple of a vector.
class Values {
 public:
  explicit Values(int64_t n, uint64_t seed = 1) : memory_(n + 1) {
    Random random(seed);
    for (float& value : memory_) value = static_cast<float>(random.Below(1 << 20)) / (1 << 19) - 1;
  }
  float* data() { return memory_.data() + 1; }
  const float* data() const { return memory_.data() + 1; }
  float operator[](int64_t i) const { return memory_[i + 1]; }
  int64_t size() const { return static_cast<int64_t>(memory_.size()) - 1; }

 private:
  std::vector<float> memory_;
};

using Doubles = std::vector<double>;

inline void ExpectNear(const Values& actual, const Doubles& expected, double bound) {
  ASSERT_EQ(actual.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], bound * std::max(1.0, std::abs(expected[i])))
        << "element " << i;
  }
}

}  // namespace longhaul::kernels
