#include "common/logging/line_queue.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(30);
// Room for so many short lines.
constexpr size_t kFew = 1000;

// A sink that stands still until it is opened, or takes nothing. The queue's thread may outlive the
// test, so it shares the sink.
class Sink {
 public:
  bool Write(absl::string_view line) {
    absl::MutexLock lock(&mutex_);
    ++begun_;
    mutex_.Await(absl::Condition(&open_));
    if (broken_) return false;
    lines_.emplace_back(line);
    return true;
  }
  void Set(bool open, bool broken = false) {
    absl::MutexLock lock(&mutex_);
    open_ = open;
    broken_ = broken;
  }
  void AwaitWrite(int number) {
    absl::MutexLock lock(&mutex_);
    const auto begun = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return begun_ >= number; };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&begun), kLong));
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true, broken_ ABSL_GUARDED_BY(mutex_) = false;
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class LineQueueTest : public ::testing::Test {
 protected:
  LineQueueTest()
      : queue_([sink = sink_](absl::string_view line) { return sink->Write(line); }, kFew) {
    queue_.SetNotice([](int64_t dropped) { return absl::StrCat(dropped, " dropped"); });
  }
  ~LineQueueTest() override { sink_->Set(true); }

  // The sink stands, and so many lines were offered since then. Returns how many were dropped.
  int64_t Overflow() {
    sink_->Set(false);
    queue_.Add("first");
    sink_->AwaitWrite(1);
    for (int i = 0; i < 1000; ++i) queue_.Add("more");
    return queue_.dropped();
  }

  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  LineQueue queue_;
};

TEST_F(LineQueueTest, WritesLinesInOrder) {
  for (const char* line : {"a", "b", "c"}) queue_.Add(line);
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_THAT(sink_->lines(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(queue_.dropped(), 0);
}

TEST_F(LineQueueTest, ALongLineIsWrittenIfNoneWaits) {
  const std::string line(10 * kFew, 'x');
  queue_.AddAndWait(line, kLong);
  EXPECT_THAT(sink_->lines(), ElementsAre(line));
  EXPECT_EQ(queue_.dropped(), 0);
}

TEST_F(LineQueueTest, ASinkThatStandsStillHoldsUpNobodyAndIsToldHowManyLinesItLacks) {
  const int64_t dropped = Overflow();
  EXPECT_GT(dropped, 900);
  EXPECT_GT(queue_.stalled_for(), absl::ZeroDuration());
  EXPECT_FALSE(queue_.Flush(absl::ZeroDuration()));
  sink_->Set(true);
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_EQ(queue_.stalled_for(), absl::ZeroDuration());
  // No further line is needed to tell it.
  std::vector<std::string> lines = sink_->lines();
  EXPECT_EQ(lines.front(), "first");
  EXPECT_EQ(lines.back(), absl::StrCat(dropped, " dropped"));
  EXPECT_EQ(lines.size(), 1000 + 1 - dropped + 1);
  queue_.Add("after");
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_EQ(sink_->lines().back(), "after");
  EXPECT_EQ(queue_.dropped(), dropped);
}

TEST_F(LineQueueTest, TheNoticeStandsWhereTheLinesWouldBe) {
  const int64_t dropped = Overflow();
  // There is room for this one only.
  queue_.Add("important", /*important=*/true);
  EXPECT_EQ(queue_.dropped(), dropped);
  sink_->Set(true);
  EXPECT_TRUE(queue_.Flush(kLong));
  const std::vector<std::string> lines = sink_->lines();
  EXPECT_EQ(lines[lines.size() - 2], absl::StrCat(dropped, " dropped"));
  EXPECT_EQ(lines.back(), "important");
}

TEST_F(LineQueueTest, LinesThatASinkRefusesCountAsDroppedAndAreToldWithTheNextOne) {
  sink_->Set(true, /*broken=*/true);
  for (int i = 0; i < 3; ++i) queue_.AddAndWait("lost", kLong);
  EXPECT_TRUE(queue_.failing());
  EXPECT_EQ(queue_.dropped(), 3);
  sink_->Set(true);
  queue_.AddAndWait("next", kLong);
  EXPECT_FALSE(queue_.failing());
  EXPECT_THAT(sink_->lines(), ElementsAre("3 dropped", "next"));
}

TEST_F(LineQueueTest, ASinkThatRefusedALineIsTriedAgainWithoutANewOne) {
  sink_->Set(true, /*broken=*/true);
  queue_.AddAndWait("lost", kLong);
  queue_.Retry();
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_TRUE(queue_.failing());
  EXPECT_EQ(queue_.dropped(), 1);
  sink_->Set(true);
  queue_.Retry();
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_FALSE(queue_.failing());
  EXPECT_THAT(sink_->lines(), ElementsAre("1 dropped"));
}

TEST_F(LineQueueTest, WhoWantsALineWrittenWaitsForASinkThatStandsStillOnce) {
  sink_->Set(false);
  queue_.AddAndWait("slow", absl::Milliseconds(1));
  sink_->AwaitWrite(1);
  while (queue_.stalled_for() < absl::Milliseconds(2)) absl::SleepFor(absl::Milliseconds(1));
  // It would wait for half a minute otherwise, and fail the test by its time.
  for (int i = 0; i < 10000; ++i) queue_.AddAndWait("more", absl::Milliseconds(2));
  sink_->Set(true);
  EXPECT_TRUE(queue_.Flush(kLong));
  EXPECT_EQ(sink_->lines().front(), "slow");
}

TEST(LineQueueEndTest, TheEndWaitsForLinesButNotForASinkThatStandsStill) {
  const auto sink = std::make_shared<Sink>();
  const auto write = [sink](absl::string_view line) { return sink->Write(line); };
  {
    LineQueue queue(write, kFew);
    queue.Add("last");
  }
  EXPECT_THAT(sink->lines(), ElementsAre("last"));
  sink->Set(false);
  {
    LineQueue queue(write, kFew);
    queue.Add("never");
    sink->AwaitWrite(2);
  }
  sink->Set(true);
}

}  // namespace
}  // namespace longhaul
