#include "worker/collective/sign_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/each_target.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

std::vector<float> Values(uint64_t seed, int64_t n) {
  Random random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) {
    // Zeros of both signs are included.
    values.push_back(random.Below(9) == 0 ? (random.Below(2) == 0 ? 0.0f : -0.0f)
                                          : static_cast<float>(random.Uniform() - 0.5));
  }
  return values;
}

TEST(SignKernelsTest, ZeroIsPositiveAndTheErrorIsKept) {
  std::vector<float> feedback = {1, -3, 0, -0.0f};
  uint8_t signs = 0;
  sign_scalar::TakeSigns(4, 2, feedback.data(), &signs, 0);
  EXPECT_EQ(signs, 0b0010);
  EXPECT_THAT(feedback, ElementsAre(-1, -1, -2, -2));
  std::vector<float> decoded(4);
  sign_scalar::DecodeSigns(4, 2, &signs, 0, decoded.data());
  EXPECT_THAT(decoded, ElementsAre(2, -2, 2, 2));
}

TEST(SignKernelsTest, SumsAreOfValuesWithFeedback) {
  std::vector<float> feedback = {1, -1, 0.5f};
  const std::vector<float> values = {1, -2, 0};
  const MagnitudeSums sums = sign_scalar::AddFeedback(3, values.data(), feedback.data());
  EXPECT_THAT(feedback, ElementsAre(2, -3, 0.5f));
  EXPECT_EQ(sums.absolute, 5.5);
  EXPECT_EQ(sums.squared, 13.25);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// At sizes around any vector width, beginning at every bit of a byte.
void ExpectTheDefinition() {
  for (const int64_t n : {0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 127, 128, 129, 4099}) {
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE(testing::Message() << n << " elements from bit " << bit);
      const std::vector<float> values = Values(n + 1, n);
      std::vector<float> one = Values(bit + 100, n), two = one;
      const MagnitudeSums a = AddFeedback(n, values.data(), one.data());
      const MagnitudeSums b = sign_scalar::AddFeedback(n, values.data(), two.data());
      EXPECT_EQ(a.absolute, b.absolute);
      EXPECT_EQ(a.squared, b.squared);
      EXPECT_TRUE(SameBits(one, two));
      // Bits around a run must not change.
      std::vector<uint8_t> signs((bit + n + 7) / 8 + 1), expected = signs;
      if (bit > 0) signs[0] = expected[0] = static_cast<uint8_t>((1 << bit) - 1);
      TakeSigns(n, 0.25f, one.data(), signs.data(), bit);
      sign_scalar::TakeSigns(n, 0.25f, two.data(), expected.data(), bit);
      EXPECT_EQ(signs, expected);
      EXPECT_TRUE(SameBits(one, two));
      AddSigns(n, 0.3f, signs.data(), bit, one.data());
      sign_scalar::AddSigns(n, 0.3f, signs.data(), bit, two.data());
      EXPECT_TRUE(SameBits(one, two));
      DecodeSigns(n, 0.3f, signs.data(), bit, one.data());
      sign_scalar::DecodeSigns(n, 0.3f, signs.data(), bit, two.data());
      EXPECT_TRUE(SameBits(one, two));
    }
  }
}

TEST(SignKernelsTest, EveryInstructionSetEqualsTheDefinition) { OnEachTarget(ExpectTheDefinition); }

}  // namespace
}  // namespace longhaul
