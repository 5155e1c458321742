#include "worker/optim/squared_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "tests/testing/each_target.h"

namespace longhaul {
namespace {

TEST(SquaredNormTest, EqualsThePlainSum) {
  Random random(2);
  for (size_t size : {0, 1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000}) {
    std::vector<float> values(size + 1);
    for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    const auto unaligned = absl::MakeSpan(values).subspan(1);
    double expected = 0;
    for (float value : unaligned) expected += double{value} * value;
    EXPECT_NEAR(SquaredNorm(unaligned), expected, 1e-12 * expected) << size;
  }
}

TEST(SquaredNormTest, AddsBlockByBlock) {
  std::vector<float> values(384);
  Random random(3);
  for (float& value : values) value = static_cast<float>(random.Uniform());
  const auto all = absl::MakeSpan(values);
  EXPECT_EQ(SquaredNorm(all), SquaredNorm(all.first(128)) + SquaredNorm(all.subspan(128, 128)) +
                                  SquaredNorm(all.subspan(256)));
}

// A lane's sum in plain code: every instruction set gives its bits.
TEST(SquaredNormTest, EveryInstructionSetGivesTheBitsOfTheDefinition) {
  std::vector<float> values(1000);
  Random random(5);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  double expected = 0;
  for (size_t block = 0; block < values.size(); block += kSquaredBlock) {
    double lanes[8] = {};
    for (size_t i = block; i < std::min<size_t>(block + kSquaredBlock, values.size()); ++i)
      lanes[i % 8] += double{values[i]} * values[i];
    expected += ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }
  OnEachTarget([&] { EXPECT_EQ(SquaredNorm(values), expected); });
}

TEST(SquaredNormTest, AnyNumberOfThreadsGivesTheSameBits) {
  Random random(4);
  std::vector<float> values(300'003);
  for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    EXPECT_EQ(SquaredNorm(values, &team), SquaredNorm(values)) << threads;
  }
}

TEST(SquaredNormTest, DoesNotOverflowFloat) {
  const std::vector<float> values(2, 1e30f);
  EXPECT_NEAR(SquaredNorm(values), 2e60, 1e54);
}

}  // namespace
}  // namespace longhaul
