#include "tests/conformance/fragment_coder_suite.h"

namespace longhaul::session {
namespace {

TEST_P(FragmentCoderSuite, ASeedIsTheLiveParametersExactly) {
  CoderPair pair = Pair(/*feedback=*/true);
  pair.SetLive(1);
  pair.TakeSnapshot();
  const std::string payload = pair.Code(RoundKind::kSeed, 2);
  std::vector<float> unit(300), coded(300);
  ASSERT_TRUE(pair.replica().Read(0, 0, absl::MakeSpan(unit)).ok());
  std::copy_n(payload.begin(), 1200, reinterpret_cast<char*>(coded.data()));
  EXPECT_EQ(coded, unit);
}

// A contribution of an earlier start of the pool has counted.
TEST_P(FragmentCoderSuite, ACommitBeforeTheCodeKeepsTheErrorFeedback) {
  CoderPair pair = Pair(/*feedback=*/true);
  pair.SetLive(1);
  pair.TakeSnapshot();
  pair.Code(RoundKind::kOuter, 2);
  pair.Commit(true);
  const std::vector<float> owed = pair.ReadFeedback();
  pair.SetLive(3);
  pair.TakeSnapshot();
  pair.Commit(true);
  EXPECT_EQ(pair.ReadFeedback(), owed);
  pair.Code(RoundKind::kOuter, 4);
}

TEST_P(FragmentCoderSuite, EveryCodecGivesTheBytesOfItsDefinition) {
  for (const CodecOptions& options :
       {CodecOptions{.kind = CodecKind::kFp32}, CodecOptions{.kind = CodecKind::kBf16},
        CodecOptions{.kind = CodecKind::kE3m0, .search_scale = true},
        CodecOptions{.kind = CodecKind::kInt8, .stochastic = true},
        CodecOptions{.kind = CodecKind::kInt6}, CodecOptions{.kind = CodecKind::kInt4},
        CodecOptions{.kind = CodecKind::kSign1},
        CodecOptions{.kind = CodecKind::kTopk2, .feedback_decay = 0.95f}}) {
    SCOPED_TRACE(CodecName(options.kind));
    CoderPair pair(GetParam().device, options, options.kind != CodecKind::kFp32);
    for (uint64_t round = 1; round <= 3; ++round) {
      pair.SetLive(round);
      pair.TakeSnapshot();
      pair.Code(RoundKind::kOuter, 10 + round);
      pair.Commit(true);
    }
  }
}

TEST_P(FragmentCoderSuite, EachRankCodesItsBlocks) {
  // Noise depends on the place of a block, too.
  for (const CodecOptions& options : {CodecOptions{.kind = CodecKind::kE3m0},
                                      CodecOptions{.kind = CodecKind::kInt8, .stochastic = true}}) {
    for (int rank = 0; rank < 3; ++rank) {
      CoderPair pair(GetParam().device, options, /*feedback=*/true, rank, 3);
      pair.SetLive(1);
      for (int round = 0; round < 2; ++round) {
        pair.TakeSnapshot();
        EXPECT_FALSE(pair.Code(RoundKind::kOuter, 2).empty());
        pair.Commit(true);
      }
      pair.ReadFeedback();
    }
  }
}

TEST_P(FragmentCoderSuite, ARankMayOwnNothing) {
  CoderPair pair = Pair(/*feedback=*/true, 40, 41);
  pair.TakeSnapshot();
  EXPECT_EQ(pair.Code(RoundKind::kOuter, 2), "");
  pair.Commit(true);
  pair.TakeSnapshot();
  EXPECT_EQ(pair.Code(RoundKind::kOuter, 2), "");
}

TEST_P(FragmentCoderSuite, ASnapshotHasTheValuesOfTheMomentItIsTaken) {
  CoderPair pair = Pair(/*feedback=*/false);
  pair.SetLive(1);
  pair.TakeSnapshot();
  const std::string first = pair.Code(RoundKind::kOuter, 2);
  pair.TakeSnapshot();
  pair.SetLive(3);
  EXPECT_EQ(pair.Code(RoundKind::kOuter, 2), first);
  pair.TakeSnapshot();
  pair.SetLive(1);
  // Replaces the older snapshot.
  pair.TakeSnapshot();
  EXPECT_EQ(pair.Code(RoundKind::kOuter, 2), first);
}

TEST_P(FragmentCoderSuite, FeedbackThatIsPutBackGoesOn) {
  CoderPair pair = Pair(/*feedback=*/true), other = Pair(/*feedback=*/true);
  EXPECT_EQ(pair.ReadFeedback(), std::vector<float>(pair.Outer(1).size()));
  pair.SetLive(1);
  pair.TakeSnapshot();
  pair.Code(RoundKind::kOuter, 2);
  pair.Commit(true);
  const std::vector<float> owed = pair.ReadFeedback();
  other.WriteFeedback(owed);
  EXPECT_EQ(other.ReadFeedback(), owed);
  for (CoderPair* of : {&pair, &other}) {
    of->SetLive(3);
    of->TakeSnapshot();
  }
  const std::string with = pair.Code(RoundKind::kOuter, 4);
  EXPECT_EQ(other.Code(RoundKind::kOuter, 4), with);
  other.Reset();
  other.TakeSnapshot();
  EXPECT_NE(other.Code(RoundKind::kOuter, 4), with) << "the test sees nothing";
}

TEST_P(FragmentCoderSuite, FeedbackCountsOnlyAfterACommitThatContributed) {
  CoderPair pair = Pair(/*feedback=*/true);
  pair.SetLive(1);
  const auto round = [&] {
    pair.TakeSnapshot();
    return pair.Code(RoundKind::kOuter, 2);
  };
  const std::string without = round();
  EXPECT_EQ(round(), without) << "an aborted round leaves no trace";
  pair.Commit(false);
  EXPECT_EQ(round(), without);
  pair.Commit(true);
  const std::string with = round();
  EXPECT_NE(with, without);
  pair.Commit(false);
  EXPECT_EQ(round(), with) << "a round that did not count keeps the feedback before it";
  pair.Reset();
  EXPECT_EQ(round(), without) << "with the base replaced it is dropped";
}

TEST_P(FragmentCoderSuite, ASeedLeavesNoFeedback) {
  CoderPair pair = Pair(/*feedback=*/true);
  pair.SetLive(1);
  pair.TakeSnapshot();
  const std::string without = pair.Code(RoundKind::kOuter, 2);
  pair.Reset();
  pair.TakeSnapshot();
  pair.Code(RoundKind::kSeed, 2);
  pair.TakeSnapshot();
  EXPECT_EQ(pair.Code(RoundKind::kOuter, 2), without);
}

TEST_P(FragmentCoderSuite, NanAndInfAreRefusedWithTheirPlace) {
  for (const RoundKind kind : {RoundKind::kSeed, RoundKind::kOuter}) {
    CoderPair pair = Pair(/*feedback=*/true);
    pair.SetLive(1);
    pair.WriteLive(1, 500, std::numeric_limits<float>::infinity());
    pair.TakeSnapshot();
    EXPECT_NE(pair.Code(kind, 2).find("element 884 of the segment is NaN or Inf"),
              std::string::npos);
    // The next round is as if nothing had happened.
    pair.SetLive(1);
    pair.TakeSnapshot();
    pair.Code(RoundKind::kOuter, 2);
  }
}

}  // namespace
}  // namespace longhaul::session
