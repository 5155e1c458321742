#include "worker/kernels/cross_entropy.h"

#include <bit>

#include "tests/unit/worker/kernels/reference.h"

namespace longhaul::kernels {
namespace {

TEST(CrossEntropyTest, EqualsTheDefinition) {
  OnEachTarget([] {
    for (const int64_t rows : {0, 1, 5}) {
      for (const int64_t classes : {1, 2, 15, 16, 17, 250, 256}) {
        Values logits(rows * classes);
        for (int64_t i = 0; i < logits.size(); ++i) logits.data()[i] *= 30;
        std::vector<int64_t> targets;
        for (int64_t row = 0; row < rows; ++row) targets.push_back((row * 7 + 1) % classes);
        Doubles gradient(logits.size());
        double loss = 0;
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[row * classes + i]);
          loss += std::log(sum) - logits[row * classes + targets[row]];
          for (int64_t i = 0; i < classes; ++i) {
            gradient[row * classes + i] =
                0.5 * (std::exp(logits[row * classes + i]) / sum - (i == targets[row]));
          }
        }
        EXPECT_NEAR(CrossEntropy(logits.data(), targets.data(), rows, classes, 0.5), loss,
                    1e-5 * (1 + loss));
        ExpectNear(logits, gradient, 1e-6);
      }
    }
  });
}

// Whatever its logits are: 0 times infinity would be NaN.
TEST(CrossEntropyTest, ARowWithoutATargetHasNoLossAndNoGradient) {
  OnEachTarget([] {
    for (const int64_t classes : {1, 3, 17, 250}) {
      Values logits(3 * classes);
      Values alone(classes);
      for (int64_t i = 0; i < classes; ++i) {
        alone.data()[i] = logits[classes + i];
        logits.data()[i] = i % 2 == 0 ? INFINITY : NAN;
      }
      const std::vector<int64_t> targets = {kNoTarget, classes - 1, kNoTarget};
      const double expected = CrossEntropy(alone.data(), targets.data() + 1, 1, classes, 0.5);
      EXPECT_EQ(CrossEntropy(logits.data(), targets.data(), 3, classes, 0.5), expected);
      for (int64_t i = 0; i < classes; ++i) {
        EXPECT_EQ(logits[i], 0);
        EXPECT_EQ(logits[classes + i], alone[i]);
        EXPECT_EQ(logits[2 * classes + i], 0);
      }
    }
  });
}

// Else a run would continue with weights that are spoilt.
TEST(CrossEntropyTest, ALogitThatIsNotANumberMakesTheLossNone) {
  OnEachTarget([] {
    for (const int64_t classes : {3, 17, 250}) {
      for (const int64_t at : {int64_t{0}, classes / 2, classes - 1}) {
        for (const uint32_t payload : {0x0u, 0x1u, 0x2u, 0x1ffu, 0x3fffffu, 0x80000001u}) {
          Values logits(classes);
          logits.data()[at] = std::bit_cast<float>(0x7fc00000u | payload);
          const int64_t target = 1;
          EXPECT_TRUE(std::isnan(CrossEntropy(logits.data(), &target, 1, classes, 1)))
              << at << " " << payload;
        }
      }
    }
  });
}

// Far below the largest logit a probability is exactly 0, and near it within a few units of
// float32.
TEST(CrossEntropyTest, ProbabilitiesAreExactToTheLastDigits) {
  OnEachTarget([] {
    for (float below = 0; below < 120; below += 0.37f) {
      float logits[] = {0, -below};
      const int64_t target = kNoTarget + 1;
      CrossEntropy(logits, &target, 1, 2, 1);
      const double expected = 1 / (1 + std::exp(static_cast<double>(below)));
      EXPECT_NEAR(logits[1], expected, 5e-7 * expected + 2e-38) << below;
      if (below > 88) {
        EXPECT_EQ(logits[1], 0) << below;
      }
    }
  });
}

TEST(CrossEntropyTest, LargeLogitsStayFinite) {
  float logits[] = {1e30f, -1e30f, 0};
  const int64_t target = 0;
  EXPECT_EQ(CrossEntropy(logits, &target, 1, 3, 1), 0);
  for (const float gradient : logits) EXPECT_EQ(gradient, 0);
}

}  // namespace
}  // namespace longhaul::kernels
