#include "coordinator/effects/job_events.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul::coordinator {
namespace {

using testing::HasSubstr;

v1::JobEvent Said(const std::string& words) { return MakeEvent(v1::POOL_LOST, v1::WARNING, words); }

TEST(JobEventsTest, NumbersThemAndForgetsTheOldest) {
  JobEvents events;
  for (size_t i = 0; i < JobEvents::kEventsMax + 3; ++i)
    events.Add(Said("x"), absl::FromUnixSeconds(7));
  const auto all = events.After(0);
  ASSERT_EQ(all.size(), JobEvents::kEventsMax);
  EXPECT_EQ(all.front().sequence(), 4);
  EXPECT_EQ(all.back().at().seconds(), 7);
  EXPECT_EQ(events.After(all.back().sequence() - 1).size(), 1u);
}

TEST(JobEventsTest, ComesBackFromTheDatabase) {
  JobEvents events;
  events.Add(Said("a"), absl::UnixEpoch());
  events.Add(Said("b"), absl::UnixEpoch());
  const auto records = events.Unsaved("j");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].oldest, 1);
  events.Saved(events.newest());
  EXPECT_TRUE(events.Unsaved("j").empty());
  JobEvents restored;
  restored.Restore({records[0].event, "not an event", records[1].event});
  restored.Add(Said("c"), absl::UnixEpoch());
  ASSERT_EQ(restored.After(0).size(), 3u);
  EXPECT_EQ(restored.After(0)[2].sequence(), 3);
  EXPECT_EQ(restored.Unsaved("j").size(), 1u);
}

TEST(JobEventsTest, CutsLongWordsBetweenCharacters) {
  JobEvents events;
  std::string words(JobEvents::kMessageBytesMax - 1, 'x');
  events.Add(Said(words + "\xc3\xa4 and more"), absl::UnixEpoch());
  EXPECT_EQ(events.After(0)[0].message(), words);
}

TEST(JobEventsTest, AllEventsFitOneMessageWhateverAPoolSent) {
  JobEvents events;
  v1::JobEvent event = Said(std::string(5000, 'm'));
  event.set_hint(std::string(5000, 'h'));
  event.set_code(std::string(5000, 'c'));
  event.set_pool(std::string(5000, 'p'));
  for (size_t e = 0; e < JobEvents::kEventsMax; ++e) events.Add(event, absl::UnixEpoch());
  // As an earlier version stored them.
  event.set_sequence(1000);
  JobEvents restored;
  restored.Restore({event.SerializeAsString()});
  for (const JobEvents* some : {&events, &restored}) {
    for (const v1::JobEvent& kept : some->After(0)) EXPECT_LT(kept.ByteSizeLong(), 2700u);
  }
}

TEST(JobEventsTest, SaysWhatHappenedToAPool) {
  StorePlace place{.job = "j", .place = {.pool = "east", .ordinal = 2}};
  EXPECT_EQ(EventOf(place).kind(), v1::POOL_ASSIGNED);
  place.place.start_step = 30;
  EXPECT_EQ(EventOf(place).kind(), v1::POOL_JOINED);
  EXPECT_EQ(EventOf(place).step(), 30);
  place.place.gone = true;
  EXPECT_EQ(EventOf(place).kind(), v1::POOL_LEFT);
  place.place.missed = true;
  EXPECT_EQ(EventOf(place).kind(), v1::POOL_LATE);
  EXPECT_EQ(EventOf(place).pool(), "east");
  const v1::JobEvent aside =
      EventOf(PoolSetAside{"j",
                           "west",
                           {.code = "NOT_FOUND", .message = "no data", .hint = "put it there"},
                           absl::Seconds(5)});
  EXPECT_EQ(aside.message(), "is set aside for 5s: no data");
  EXPECT_EQ(aside.code(), "NOT_FOUND");
  EXPECT_EQ(aside.hint(), "put it there");
  const v1::JobEvent behind = EventOf(PoolFellBehind{"j", "west", 6});
  EXPECT_EQ(behind.kind(), v1::POOL_LATE);
  EXPECT_EQ(behind.severity(), v1::WARNING);
  EXPECT_EQ(behind.message(), "6 rounds in a row continued without it: it contributes nothing");
  EXPECT_THAT(behind.hint(), HasSubstr("sync.quorum.grace_seconds"));
  EXPECT_EQ(behind.pool(), "west");
}

CommitRecord Commit(double norm) {
  return {.round = {1, 9, RoundKind::kOuter}, .outer_gradient_norm = norm};
}

TEST(NormWatchTest, AlertsOnceAboutAnUnusualNorm) {
  NormWatch watch;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch.Observe(Commit(1 + 0.1 * i)).has_value());
  EXPECT_FALSE(watch.Observe(Commit(9)).has_value());
  const auto alert = watch.Observe(Commit(50));
  ASSERT_TRUE(alert.has_value());
  EXPECT_THAT(*alert, HasSubstr("fragment 1 version 9"));
  EXPECT_FALSE(watch.Observe(Commit(60)).has_value());
  EXPECT_FALSE(watch.Observe(Commit(1)).has_value());
  const auto diverged = watch.Observe(Commit(std::numeric_limits<double>::quiet_NaN()));
  ASSERT_TRUE(diverged.has_value());
  EXPECT_THAT(*diverged, HasSubstr("not finite"));
}

}  // namespace
}  // namespace longhaul::coordinator
