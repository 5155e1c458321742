#include "common/rpc/retry.h"

#include <vector>

#include "common/rpc/status_details.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Waits move the clock. Nothing sleeps.
class RetryTest : public ::testing::Test {
 protected:
  RetryOptions Options() {
    RetryOptions options;
    options.deadline = clock_.Now() + absl::Seconds(60);
    options.stop = stop_.get_token();
    options.clock = &clock_;
    options.random = &random_;
    options.wait = [this](absl::Duration wait, const std::stop_token&) {
      waits_.push_back(wait);
      clock_.Advance(wait);
    };
    return options;
  }

  ManualClock clock_;
  Random random_{42};
  std::stop_source stop_;
  std::vector<absl::Duration> waits_;
};

TEST_F(RetryTest, ReturnsTheFirstSuccess) {
  int calls = 0, told = 0;
  RetryOptions options = Options();
  options.on_retry = [&](const absl::Status&, int, absl::Duration) { ++told; };
  const absl::StatusOr<int> result = Retry(options, [&]() -> absl::StatusOr<int> {
    if (++calls < 4) return absl::UnavailableError("not yet");
    return 7;
  });
  EXPECT_EQ(*result, 7);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(waits_.size(), 3);
}

TEST_F(RetryTest, TheCallerMayDecideWhatIsRetried) {
  RetryOptions options = Options();
  int allowed = 2, calls = 0;
  options.retriable = [&](const absl::Status& status) {
    return absl::IsCancelled(status) && allowed-- > 0;
  };
  EXPECT_TRUE(absl::IsCancelled(Retry(options, [&] {
    ++calls;
    return absl::CancelledError("again");
  })));
  EXPECT_EQ(calls, 3);
}

TEST_F(RetryTest, DoesNotRepeatWhatCannotSucceed) {
  for (const absl::Status& status :
       {absl::InvalidArgumentError("bad"), absl::FailedPreconditionError("late"),
        absl::ResourceExhaustedError("too large"), absl::DeadlineExceededError("slow")}) {
    int calls = 0;
    EXPECT_EQ(Retry(Options(),
                    [&] {
                      ++calls;
                      return status;
                    }),
              status);
    EXPECT_EQ(calls, 1);
  }
}

TEST_F(RetryTest, EndsBeforeTheDeadlineWithTheLastFailure) {
  const absl::Time deadline = Options().deadline;
  EXPECT_EQ(Retry(Options(), [] { return absl::UnavailableError("down"); }),
            absl::UnavailableError("down"));
  EXPECT_LT(clock_.Now(), deadline);
  EXPECT_GT(waits_.size(), 10);
}

TEST_F(RetryTest, WaitsAtLeastAsLongAsTheServerAsks) {
  int calls = 0;
  EXPECT_TRUE(Retry(Options(), [&]() -> absl::Status {
                if (++calls == 2) return absl::OkStatus();
                return WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Seconds(3));
              }).ok());
  ASSERT_EQ(waits_.size(), 1);
  EXPECT_GE(waits_[0], absl::Seconds(3));
}

TEST_F(RetryTest, AStopEndsItBetweenAttempts) {
  int calls = 0;
  RetryOptions options = Options();
  options.wait = [this](absl::Duration, const std::stop_token&) { stop_.request_stop(); };
  const absl::Status status = Retry(options, [&]() -> absl::Status {
    ++calls;
    return absl::UnavailableError("down");
  });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(calls, 1);
}

TEST_F(RetryTest, ARealWaitEndsAtOnceWhenStopped) {
  stop_.request_stop();
  WaitUnlessStopped(absl::InfiniteDuration(), stop_.get_token());
}

TEST_F(RetryTest, JitterFillsARangeThatGrowsToItsMaximum) {
  const Backoff backoff{.initial = absl::Milliseconds(100), .max = absl::Seconds(5)};
  for (int attempt : {0, 1, 3, 6, 1000}) {
    const absl::Duration cap =
        std::min(backoff.max, absl::Milliseconds(100) * (1 << std::min(attempt, 10)));
    absl::Duration least = cap, most;
    for (int i = 0; i < 1000; ++i) {
      const absl::Duration wait = FullJitter(backoff, attempt, random_);
      least = std::min(least, wait);
      most = std::max(most, wait);
    }
    EXPECT_GE(least, absl::ZeroDuration());
    EXPECT_LT(least, 0.05 * cap);
    EXPECT_LE(most, cap);
    EXPECT_GT(most, 0.95 * cap);
  }
}

}  // namespace
}  // namespace longhaul
