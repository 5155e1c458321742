#include "worker/optim/adamw.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "common/base/random.h"
#include "tests/golden/engine/golden_file.h"

namespace longhaul {
namespace {

void ExpectNear(const std::vector<float>& actual, const std::vector<double>& expected,
                double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], relative * std::abs(expected[i])) << "element " << i;
  }
}

TEST(AdamWTest, EqualsPyTorch) {
  const GoldenFile golden("adamw.txt");
  const int64_t elements = golden.Get<int64_t>("sizes")[0], steps = golden.Get<int64_t>("sizes")[1];
  AdamW optimizer({.weight_decay = 0.1}, {{elements, true}, {elements, false}});
  std::vector<float> matrix = golden.Get("matrix"), vector = golden.Get("vector");
  for (int64_t step = 1; step <= steps; ++step) {
    const std::string suffix = "_" + std::to_string(step);
    optimizer.Begin({.learning_rate = 0.02 / static_cast<double>(step)});
    optimizer.Update(0, absl::MakeSpan(matrix), golden.Get("matrix_gradient" + suffix));
    optimizer.Update(1, absl::MakeSpan(vector), golden.Get("vector_gradient" + suffix));
    ExpectNear(matrix, golden.Get<double>("matrix" + suffix), 1e-6);
    ExpectNear(vector, golden.Get<double>("vector" + suffix), 1e-6);
  }
}

// What makes any number of ranks give the same bits.
TEST(AdamWTest, AnyCutGivesTheSameBits) {
  constexpr int64_t kElements = 300;
  Random random(1);
  std::vector<float> whole(kElements), gradients(kElements);
  for (float& value : whole) value = static_cast<float>(random.Uniform() - 0.5);
  for (float& value : gradients) value = static_cast<float>(random.Uniform() - 0.5);
  for (int64_t cut : {1, 15, 16, 17, 128, 299}) {
    std::vector<float> one = whole, two = whole;
    AdamW single({.weight_decay = 0.1}, {{kElements, true}});
    AdamW split({.weight_decay = 0.1}, {{cut, true}, {kElements - cut, true}});
    for (int step = 1; step <= 3; ++step) {
      const UpdateOptions options{.learning_rate = 0.01, .gradient_scale = 0.3};
      single.Begin(options);
      single.Update(0, absl::MakeSpan(one), gradients);
      split.Begin(options);
      split.Update(0, absl::MakeSpan(two).first(cut), absl::MakeSpan(gradients).first(cut));
      split.Update(1, absl::MakeSpan(two).subspan(cut), absl::MakeSpan(gradients).subspan(cut));
    }
    EXPECT_EQ(std::memcmp(one.data(), two.data(), kElements * sizeof(float)), 0)
        << "cut at " << cut;
  }
}

}  // namespace
}  // namespace longhaul
