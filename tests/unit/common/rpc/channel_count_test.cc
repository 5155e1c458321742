#include "common/rpc/channel_count.h"

#include "gtest/gtest.h"

namespace longhaul {
namespace {

int Count(double mbit, absl::Duration round_trip, int64_t buffer = 4 << 20) {
  return BulkChannelCount(
      {.megabits_per_second = mbit, .round_trip = round_trip, .send_buffer_bytes = buffer});
}

TEST(BulkChannelCountTest, OneChannelIsEnoughNearby) {
  EXPECT_EQ(Count(1000, absl::ZeroDuration()), 1);
  EXPECT_EQ(Count(100'000, absl::Milliseconds(2)), 1);
}

TEST(BulkChannelCountTest, ADistantLinkGetsAtLeastFour) {
  EXPECT_EQ(Count(10, absl::Milliseconds(3)), 4);
  EXPECT_EQ(Count(100, absl::Milliseconds(100)), 4);
}

TEST(BulkChannelCountTest, GrowsWithBandwidthAndRoundTrip) {
  // 12.5 MB over 2 MiB for each channel.
  EXPECT_EQ(Count(1000, absl::Milliseconds(100)), 6);
  EXPECT_EQ(Count(2000, absl::Milliseconds(100)), 12);
  EXPECT_EQ(Count(1000, absl::Milliseconds(200)), 12);
}

TEST(BulkChannelCountTest, ShrinksWithTheSendBuffer) {
  EXPECT_EQ(Count(1000, absl::Milliseconds(200), 8 << 20), 6);
  EXPECT_EQ(Count(1000, absl::Milliseconds(200), 32 << 20), 4);
}

TEST(BulkChannelCountTest, IsBounded) {
  EXPECT_EQ(Count(100'000, absl::Milliseconds(300)), 16);
  EXPECT_EQ(Count(1000, absl::InfiniteDuration()), 16);
  EXPECT_EQ(Count(1000, absl::Milliseconds(100), 0), 16);
}

TEST(PacedBytesPerSecondTest, LeavesRoomForHeaders) {
  EXPECT_DOUBLE_EQ(PacedBytesPerSecond({.megabits_per_second = 1000}), 0.96 * 125e6);
}

TEST(StreamCountTest, OneForEachMiB) {
  EXPECT_EQ(StreamCount(4, 1, 0), 1);
  EXPECT_EQ(StreamCount(4, (1 << 20) + 1, 0), 2);
  EXPECT_EQ(StreamCount(4, 1 << 30, 0), 4);
  EXPECT_EQ(StreamCount(1, 1 << 30, 0), 1);
}

// Of 64 ranks that share 20 Mbit/s each has 37 KB/s. On four streams each would bring a chunk every
// 112 s, and no server waits so long.
TEST(StreamCountTest, NoMoreThanARateCanKeepMoving) {
  const double rate = PacedBytesPerSecond({.megabits_per_second = 20.0 / 64});
  EXPECT_EQ(StreamCount(4, 1 << 30, rate), 1);
  EXPECT_EQ(StreamCount(16, 1 << 30, 1e6), 9);
  EXPECT_EQ(StreamCount(16, 1 << 30, 125e6), 16);
}

TEST(StreamLimitTest, FallsToAQuarterWhenALinkIsTooSlow) {
  StreamLimit limit(16);
  EXPECT_EQ(limit.most(), 16);
  for (const int most : {4, 1, 1}) {
    limit.TooSlow();
    EXPECT_EQ(limit.most(), most);
  }
}

TEST(StreamLimitTest, GrowsToWhatATransferShowsTheLinkToCarry) {
  StreamLimit limit(16);
  limit.TooSlow();
  limit.TooSlow();
  // 1 Mbit/s keeps one stream moving, 10 Mbit/s twelve.
  limit.Passed(60 << 20, absl::Seconds(500));
  EXPECT_EQ(limit.most(), 1);
  limit.Passed(60 << 20, absl::Seconds(50));
  EXPECT_EQ(limit.most(), 12);
  limit.Passed(60 << 20, absl::Seconds(500));
  EXPECT_EQ(limit.most(), 12) << "only a transfer that was too slow lowers it";
  limit.Passed(60 << 20, absl::ZeroDuration());
  EXPECT_EQ(limit.most(), 16);
}

TEST(StreamLimitTest, NothingShowsNothing) {
  StreamLimit limit(16);
  limit.TooSlow();
  limit.Passed(0, absl::ZeroDuration());
  limit.Passed(1000, absl::Seconds(1));
  EXPECT_EQ(limit.most(), 4);
}

}  // namespace
}  // namespace longhaul
