#include "worker/agent/log_ring.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/logging/standard_error.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(LogRingTest, ReadsOnFromWhereAReaderWas) {
  LogRing ring;
  for (const char* line : {"a", "b", "c"}) ring.Add(line);
  EXPECT_EQ(ring.Before(2, ""), 1);
  EXPECT_EQ(ring.Before(0, ""), 3);
  EXPECT_EQ(ring.Before(99, ""), 0);
  const LogRing::Chunk chunk = ring.Read(1, "", 100);
  EXPECT_EQ(chunk.text, "b\nc\n");
  EXPECT_EQ(chunk.dropped, 0);
  EXPECT_EQ(chunk.next, 3);
  EXPECT_EQ(ring.Read(3, "", 100).text, "");
  ring.Add("d");
  EXPECT_EQ(ring.Read(3, "", 100).text, "d\n");
}

TEST(LogRingTest, GoesOnForAReaderOfThisRingAlone) {
  LogRing ring, other;
  for (const char* line : {"a", "b", "c"}) ring.Add(line);
  EXPECT_NE(ring.id(), 0u);
  EXPECT_NE(ring.id(), other.id());
  EXPECT_EQ(ring.GoOnAt(ring.id(), 2), 2);
  EXPECT_EQ(ring.GoOnAt(ring.id(), 3), 3);
  EXPECT_EQ(ring.GoOnAt(ring.id(), 4), 3);
  EXPECT_EQ(ring.GoOnAt(ring.id(), -1), 0);
  EXPECT_EQ(ring.GoOnAt(other.id(), 2), 0);
}

TEST(LogRingTest, KeepsTheNewestLinesAndCountsDroppedOnes) {
  LogRing ring(2000);
  for (int i = 0; i < 1000; ++i) ring.Add(absl::StrCat("line ", i));
  const LogRing::Chunk chunk = ring.Read(0, "", 1 << 20);
  EXPECT_GT(chunk.dropped, 900);
  EXPECT_LT(chunk.text.size(), 2000u);
  EXPECT_EQ(chunk.text.substr(0, chunk.text.find('\n')), absl::StrCat("line ", chunk.dropped));
  EXPECT_EQ(chunk.next, 1000);
}

TEST(LogRingTest, ChunksAreBoundedButALineFitsInAnyCase) {
  LogRing ring;
  ring.Add(std::string(10'000, 'x'));
  ring.Add("y");
  const LogRing::Chunk first = ring.Read(0, "", 10);
  EXPECT_EQ(first.text.size(), LogRing::kLineMax + 1);
  EXPECT_EQ(first.next, 1);
  EXPECT_EQ(ring.Read(first.next, "", 10).text, "y\n");
}

TEST(LogRingTest, LinesBelongToTheCurrentJob) {
  LogRing ring;
  ring.Add("idle");
  ring.SetJob("j-1");
  ring.Add("first");
  ring.SetJob("j-2");
  ring.Add("second");
  EXPECT_EQ(ring.Read(0, "j-1", 100).text, "first\n");
  EXPECT_EQ(ring.Before(1, "j-1"), 1);
  EXPECT_EQ(ring.Read(0, "", 100).text, "idle\nfirst\nsecond\n");
  EXPECT_EQ(ring.Read(0, "j-3", 100).next, 3);
}

TEST(LogRingTest, HasWhatTheLogGotBeforeStandardErrorHasIt) {
  LogRing ring;
  const Logger log({.program = "longhaul-worker",
                    .format = LogFormat::kText,
                    .on_line = [&ring](absl::string_view line) { ring.Add(line); }});
  ::testing::internal::CaptureStderr();
  log.Info("a line");
  log.Info("another");
  const std::string kept = ring.Read(0, "", 200).text;
  FlushStandardError();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), kept);
  EXPECT_TRUE(absl::EndsWith(kept, "another\n")) << kept;
}

}  // namespace
}  // namespace longhaul
