#include "coordinator/pool/set_aside.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

const absl::Time kBegin = absl::UnixEpoch();

JobFault MissingData() {
  return {
      .code = "NOT_FOUND", .message = "/data/corpus.txt: no such file", .field = "data.text.path"};
}
JobFault NoMemory() {
  return {.code = "RESOURCE_EXHAUSTED", .message = "no memory for 3 GB", .field = "model"};
}
// Fails `times` times, each time at the moment when the pool may try again. Returns the time of the
// last failure.
absl::Time FailAgain(SetAsides& s, const std::string& pool, int times, absl::Time now,
                     const JobFault& fault = MissingData()) {
  for (int i = 0; i < times; ++i) {
    if (i > 0) now = s.all().at(pool).retry_at;
    EXPECT_TRUE(s.Add(pool, fault, now));
  }
  return now;
}

TEST(SetAsidesTest, BlocksAPoolUntilItsRetry) {
  SetAsides s;
  EXPECT_FALSE(s.Blocked("a", kBegin));
  ASSERT_TRUE(s.Add("a", MissingData(), kBegin));
  EXPECT_TRUE(s.Blocked("a", kBegin));
  EXPECT_FALSE(s.Blocked("b", kBegin));
  EXPECT_TRUE(s.Blocked("a", kBegin + absl::Seconds(5) - absl::Nanoseconds(1)));
  EXPECT_FALSE(s.Blocked("a", kBegin + absl::Seconds(5)));
}

// Each time it does a few steps before its values become infinite.
TEST(SetAsidesTest, FailuresSoonAfterAContributionAreInARow) {
  SetAsides s;
  absl::Time now = kBegin;
  for (const int seconds : {5, 10, 20}) {
    ASSERT_TRUE(s.Add("a", MissingData(), now));
    const absl::Time retry = s.all().at("a").retry_at;
    EXPECT_EQ(retry - now, absl::Seconds(seconds));
    s.Contributed("a");
    EXPECT_TRUE(s.all().empty());
    now = retry + absl::Seconds(seconds - 1);
  }
  ASSERT_TRUE(s.Add("a", MissingData(), now));
  EXPECT_TRUE(s.Verdict({"a"}, now).has_value());
  // Another fault, or the same after a while, is a first one.
  s.Contributed("a");
  ASSERT_TRUE(s.Add("a", NoMemory(), now));
  EXPECT_EQ(s.all().at("a").failures, 1);
  s.Contributed("a");
  ASSERT_TRUE(s.Add("a", NoMemory(), now + absl::Seconds(10)));
  EXPECT_EQ(s.all().at("a").failures, 1);
}

TEST(SetAsidesTest, EachFailureInARowDoublesTheDelayUpToItsMost) {
  SetAsides s;
  absl::Time now = kBegin;
  for (const int seconds : {5, 10, 20, 40, 80, 160, 320, 600, 600, 600}) {
    ASSERT_TRUE(s.Add("a", MissingData(), now));
    EXPECT_EQ(s.all().at("a").retry_at - now, absl::Seconds(seconds));
    now = s.all().at("a").retry_at;
  }
  EXPECT_EQ(s.all().at("a").failures, 10);
}

TEST(SetAsidesTest, ARepeatedReportDoesNotCount) {
  SetAsides s;
  ASSERT_TRUE(s.Add("a", MissingData(), kBegin));
  EXPECT_FALSE(s.Add("a", NoMemory(), kBegin + absl::Seconds(4)));
  EXPECT_EQ(s.all().at("a").failures, 1);
  EXPECT_EQ(s.all().at("a").fault.code, "NOT_FOUND");
  EXPECT_EQ(s.all().at("a").retry_at, kBegin + absl::Seconds(5));
}

TEST(SetAsidesTest, WorkEndsARowOfFailures) {
  SetAsides s;
  const absl::Time now = FailAgain(s, "a", 3, kBegin);
  s.Clear("a");
  s.Clear("never seen");
  EXPECT_TRUE(s.all().empty());
  EXPECT_EQ(s.NextRetry(kBegin), absl::InfiniteFuture());
  ASSERT_TRUE(s.Add("a", MissingData(), now));
  EXPECT_EQ(s.all().at("a").retry_at, now + absl::Seconds(5));
}

TEST(SetAsidesTest, TellsTheNextRetryOfThoseThatWait) {
  SetAsides s;
  EXPECT_EQ(s.NextRetry(kBegin), absl::InfiniteFuture());
  s.Add("b", MissingData(), kBegin);
  s.Add("a", MissingData(), kBegin + absl::Seconds(2));
  EXPECT_EQ(s.NextRetry(kBegin + absl::Seconds(2)), kBegin + absl::Seconds(5));
  EXPECT_EQ(s.NextRetry(kBegin + absl::Seconds(5)), kBegin + absl::Seconds(7));
  EXPECT_EQ(s.NextRetry(kBegin + absl::Seconds(7)), absl::InfiniteFuture());
  // Both try again, and their failures are not forgotten.
  EXPECT_EQ(s.all().size(), 2);
}

TEST(SetAsidesTest, KeepsNoMoreThanItsMost) {
  SetAsides s;
  for (size_t i = 0; i < SetAsides::kPoolsMax; ++i)
    s.Add(absl::StrCat("p", i), MissingData(), kBegin + absl::Milliseconds(i));
  EXPECT_TRUE(s.all().contains("p0"));
  s.Add("new", MissingData(), kBegin + absl::Milliseconds(SetAsides::kPoolsMax));
  EXPECT_EQ(s.all().size(), SetAsides::kPoolsMax);
  EXPECT_FALSE(s.all().contains("p0"));
  // The pool is known, so it needs no room.
  s.Add("p1", MissingData(), kBegin + absl::Seconds(6));
  EXPECT_TRUE(s.all().contains("p2"));
  EXPECT_EQ(s.all().at("p1").failures, 2);
}

TEST(SetAsidesTest, ExcludesTheBlockedWithTheirReason) {
  SetAsides s;
  s.Add("a", MissingData(), kBegin);
  s.Add("b", NoMemory(), kBegin + absl::Seconds(3));
  const absl::Time now = kBegin + absl::Milliseconds(5500);
  const std::map<std::string, std::string> expected = {
      {"b", "model: no memory for 3 GB, again in 3 s"}};
  EXPECT_EQ(s.Excluded(now), expected);
  EXPECT_EQ(s.Excluded(kBegin + absl::Seconds(3)).size(), 2);
  EXPECT_TRUE(s.Excluded(kBegin + absl::Seconds(8)).empty());
}

TEST(SetAsidesTest, DescribesInFewBytesAndWholeCharacters) {
  SetAside entry{.fault = MissingData(), .retry_at = kBegin + absl::Seconds(40)};
  EXPECT_EQ(Describe(entry, kBegin),
            "data.text.path: /data/corpus.txt: no such file, again in 40 s");
  EXPECT_EQ(Describe(entry, kBegin + absl::Minutes(1)),
            "data.text.path: /data/corpus.txt: no such file");
  entry.fault = {.code = "INTERNAL"};
  EXPECT_EQ(Describe(entry, kBegin), "INTERNAL, again in 40 s");
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\xE2\x82\xAC";
  entry.fault = {.code = euros, .message = euros, .field = euros};
  const std::string words = Describe(entry, kBegin);
  EXPECT_LE(words.size(), 200);
  // 21 whole characters of 3 bytes.
  EXPECT_EQ(words.find(": "), 63);
}

TEST(SetAsidesTest, TheJobHasAFaultWhenEveryPoolReportsItTwice) {
  SetAsides s;
  const absl::Time now = FailAgain(s, "a", 2, kBegin);
  FailAgain(s, "b", 1, kBegin);
  // b reported it only once.
  EXPECT_FALSE(s.Verdict({"a", "b"}, now).has_value());
  JobFault other_words = MissingData();
  other_words.message = "/home/b/corpus.txt: no such file";
  ASSERT_TRUE(s.Add("b", other_words, now));
  const std::optional<JobFault> verdict = s.Verdict({"a", "b"}, now);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->code, "NOT_FOUND");
  EXPECT_EQ(verdict->field, "data.text.path");
  // c did not report anything.
  EXPECT_FALSE(s.Verdict({"a", "b", "c"}, now).has_value());
  EXPECT_TRUE(s.Verdict({"b"}, now).has_value());
}

TEST(SetAsidesTest, NobodyEligibleProvesNothing) {
  SetAsides s;
  EXPECT_FALSE(s.Verdict({}, FailAgain(s, "a", 3, kBegin)).has_value());
}

TEST(SetAsidesTest, AReasonIsNotCutInsideAWord) {
  SetAsides s;
  const std::string message =
      "the tokenizer of this folder cannot be read without its program; it takes Python's "
      "tokenizers "
      "of version 0.20 or newer";
  ASSERT_TRUE(s.Add("a", {.code = "NOT_FOUND", .message = message, .field = "data"}, kBegin));
  EXPECT_EQ(Describe(s.all().at("a"), kBegin),
            "data: the tokenizer of this folder cannot be read without its program; it takes "
            "Python's tokenizers of ..., again in 5 s");
}

TEST(SetAsidesTest, DifferentFaultsProveNothing) {
  SetAsides s;
  absl::Time now = FailAgain(s, "a", 2, kBegin);
  FailAgain(s, "b", 2, kBegin, NoMemory());
  EXPECT_FALSE(s.Verdict({"a", "b"}, now).has_value());
  EXPECT_TRUE(s.Verdict({"a"}, now).has_value());
  // A pool that reports another fault each time.
  now = s.all().at("a").retry_at;
  ASSERT_TRUE(s.Add("a", NoMemory(), now));
  EXPECT_EQ(s.all().at("a").failures, 3);
  EXPECT_EQ(s.all().at("a").alike, 1);
  EXPECT_FALSE(s.Verdict({"a"}, now).has_value());
}

TEST(SetAsidesTest, APoolThatTriesAgainProvesNothing) {
  SetAsides s;
  FailAgain(s, "a", 2, kBegin);
  const absl::Time retry = s.all().at("a").retry_at;
  const absl::Time now = FailAgain(s, "b", 2, retry - absl::Seconds(4));
  ASSERT_GT(now, retry);
  EXPECT_FALSE(s.Verdict({"a", "b"}, now).has_value());
  ASSERT_TRUE(s.Add("a", MissingData(), now));
  EXPECT_TRUE(s.Verdict({"a", "b"}, now).has_value());
}

}  // namespace
}  // namespace longhaul
