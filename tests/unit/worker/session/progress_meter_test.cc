#include "worker/session/progress_meter.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul::session {
namespace {

class ProgressMeterTest : public testing::Test {
 protected:
  ProgressMeterTest() { meter_.Begin(clock_.Now()); }
  // Each step takes a second.
  void Step(const StepStats& stats, bool beside = false) {
    clock_.Advance(absl::Seconds(1));
    meter_.Stepped(++step_, stats, beside);
  }
  Progress Read() const { return meter_.Read(clock_.Now(), evaluations_); }

  ManualClock clock_;
  std::unique_ptr<SyntheticReplica> replica_ =
      SyntheticReplica::Create({.units = 1, .elements = 128, .initial = 1, .inner_delta = 0.5})
          .value();
  const std::vector<std::unique_ptr<OuterFragment>> fragments_;
  const Evaluations evaluations_{*replica_, fragments_, clock_, 0, {}};
  ProgressMeter meter_;
  int64_t step_ = 0;
};

TEST_F(ProgressMeterTest, CountsTheTokensOfSteps) {
  Step({.tokens = 100});
  Step({.tokens = 100});
  EXPECT_EQ(Read().inner_step, 2);
  EXPECT_EQ(Read().tokens, 200);
  EXPECT_EQ(Read().skipped_steps, 0);
  EXPECT_DOUBLE_EQ(Read().tokens_per_second, 100);
}

TEST_F(ProgressMeterTest, ASkippedStepTrainsNoTokens) {
  Step({.tokens = 100});
  Step({.tokens = 100, .skipped = true});
  Step({.tokens = 100, .skipped = true}, /*beside=*/true);
  Step({.tokens = 100});
  EXPECT_EQ(Read().inner_step, 4);
  EXPECT_EQ(Read().tokens, 200);
  EXPECT_EQ(Read().skipped_steps, 2);
  EXPECT_DOUBLE_EQ(Read().tokens_per_second, 50);
  EXPECT_DOUBLE_EQ(Read().tokens_per_second_with_evaluation, 50);
}

}  // namespace
}  // namespace longhaul::session
