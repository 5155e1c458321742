#include "worker/data/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/share.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

Windows Make(const Windows::Options& options) { return Windows::Create(options).value(); }

TEST(WindowsTest, TrainingWindowsStayOutOfTheHeldOutPart) {
  const Windows windows = Make({.tokens = 100, .context = 9, .eval_fraction = 0.2});
  EXPECT_EQ(windows.train_tokens(), 80);
  std::set<int64_t> begins;
  for (int step = 1; step <= 2000; ++step) begins.insert(windows.Train(step, 0));
  EXPECT_EQ(*begins.begin(), 0);
  EXPECT_EQ(*begins.rbegin(), 80 - 10);
  EXPECT_EQ(begins.size(), 71u);
}

TEST(WindowsTest, AWindowIsAFunctionOfSeedPoolStepAndSequence) {
  const Windows::Options options{.tokens = int64_t{1} << 40, .context = 8, .seed = 3, .pool = 2};
  const Windows windows = Make(options), same = Make(options);
  Windows::Options other_seed = options, other_pool = options;
  other_seed.seed = 4;
  other_pool.pool = 3;
  const int64_t begin = windows.Train(7, 1);
  EXPECT_EQ(same.Train(7, 1), begin);
  EXPECT_NE(windows.Train(8, 1), begin);
  EXPECT_NE(windows.Train(7, 2), begin);
  EXPECT_NE(Make(other_seed).Train(7, 1), begin);
  EXPECT_NE(Make(other_pool).Train(7, 1), begin);
}

TEST(WindowsTest, EvaluationWindowsAreEvenlySpacedOverTheHeldOutPart) {
  const Windows windows = Make({.tokens = 100, .context = 9, .eval_fraction = 0.3});
  EXPECT_EQ(windows.Eval(0, 3), 70);
  EXPECT_EQ(windows.Eval(1, 3), 80);
  EXPECT_EQ(windows.Eval(2, 3), 90);
  EXPECT_EQ(windows.Eval(0, 1), 70);
}

TEST(WindowsTest, HoldsOutAtLeastOneWindow) {
  const Windows windows = Make({.tokens = 20, .context = 9, .eval_fraction = 0.01});
  EXPECT_EQ(windows.train_tokens(), 10);
  EXPECT_EQ(windows.Train(1, 0), 0);
  EXPECT_EQ(windows.Eval(4, 5), 10);
}

// Of 10 rows, the last 3 are held out.
TEST(WindowsTest, RowsAreTheWindows) {
  const Windows windows = Make({.tokens = 100, .context = 9, .eval_fraction = 0.21, .row = 10});
  EXPECT_EQ(windows.train_tokens(), 70);
  std::set<int64_t> drawn, epoch;
  for (int step = 1; step <= 500; ++step) drawn.insert(windows.Train(step, 0));
  for (int64_t number = 14; number < 21; ++number) epoch.insert(windows.InEpochs(number));
  EXPECT_THAT(drawn, testing::ElementsAre(0, 10, 20, 30, 40, 50, 60));
  EXPECT_EQ(drawn, epoch);
  EXPECT_EQ(windows.Eval(0, 1), 70);
  EXPECT_EQ(windows.Eval(0, 2), 70);
  EXPECT_EQ(windows.Eval(1, 2), 90);
  EXPECT_EQ(windows.Eval(1, 3), 80);
  std::set<int64_t> often;
  for (int64_t i = 0; i < 7; ++i) often.insert(windows.Eval(i, 7));
  EXPECT_THAT(often, testing::ElementsAre(70, 80, 90));
  EXPECT_EQ(Make({.tokens = 20, .context = 9, .row = 10}).train_tokens(), 10);
  EXPECT_THAT(
      std::string(Windows::Create({.tokens = 10, .context = 9, .row = 10}).status().message()),
      HasSubstr("1 row(s) of conversations"));
}

TEST(WindowsTest, RefusesShortDataAndBadFractions) {
  const absl::Status status = Windows::Create({.tokens = 19, .context = 9}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("context + 1 = 10"));
  EXPECT_FALSE(Windows::Create({.tokens = 0, .context = 9}).ok());
  for (double fraction : {0.0, -0.1, 0.51, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(
        Windows::Create({.tokens = 1000, .context = 9, .eval_fraction = fraction}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(WindowsTest, SharesOfABatchCoverIt) {
  for (int64_t batch : {1, 2, 5, 8}) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = ShareOf(batch, rank, ranks);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(share.count, batch / ranks + 1);
        next += share.count;
      }
      EXPECT_EQ(next, batch);
    }
  }
}

}  // namespace
}  // namespace longhaul
