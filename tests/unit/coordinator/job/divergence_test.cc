#include "coordinator/job/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longhaul {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kGuess = std::log(256);

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(DivergenceTest, ALossIsWorseThanGuessingIfNothingIsKnownAboutTheText) {
  EXPECT_FALSE(IsWorseThanGuessing(2, kGuess));
  // Parameters that were drawn at random.
  EXPECT_FALSE(IsWorseThanGuessing(kGuess + 0.3, kGuess));
  EXPECT_TRUE(IsWorseThanGuessing(42.6, kGuess));
  for (const double loss : {kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_TRUE(IsWorseThanGuessing(loss, kGuess));
    EXPECT_TRUE(IsWorseThanGuessing(loss, 0));
  }
  EXPECT_FALSE(IsWorseThanGuessing(1e9, 0));
  EXPECT_EQ(LossInWords(84.77, kGuess), "84.77 nats per token, and guessing has 5.545");
  EXPECT_EQ(LossInWords(std::nan(""), kGuess), "not a finite number");
}

TEST(DivergenceTest, ActsAfterAWhileOfBadEvaluations) {
  const GuardOptions options{DivergenceAction::kPause, absl::Seconds(20), kGuess};
  Divergence divergence;
  divergence.Observe(options, 30, 84, At(100));
  EXPECT_TRUE(divergence.bad());
  // It is reported again.
  divergence.Observe(options, 30, 84, At(101));
  EXPECT_FALSE(divergence.lasts());
  // One may be the consequence of a bad draw.
  EXPECT_EQ(divergence.ActsAt(options), absl::InfiniteFuture());
  divergence.Observe(options, 60, std::nan(""), At(110));
  EXPECT_EQ(divergence.ActsAt(options), At(120));
  EXPECT_EQ(divergence.since(), At(100));
  // One of an earlier version comes late.
  divergence.Observe(options, 45, 3, At(111));
  EXPECT_TRUE(divergence.lasts());
  divergence.Observe(options, 90, 5, At(112));
  EXPECT_FALSE(divergence.bad());
  EXPECT_EQ(divergence.ActsAt(options), absl::InfiniteFuture());
  divergence.Observe(options, 120, 9, At(130));
  divergence.Observe(options, 150, 9, At(131));
  EXPECT_EQ(divergence.ActsAt(options), At(150));
  EXPECT_EQ(divergence.ActsAt({DivergenceAction::kNone}), absl::InfiniteFuture());
}

}  // namespace
}  // namespace longhaul
