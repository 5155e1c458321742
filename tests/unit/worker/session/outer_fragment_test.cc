#include "worker/session/outer_fragment.h"

#include <limits>

#include "common/io/digest.h"
#include "gtest/gtest.h"
#include "worker/replica/synthetic_replica.h"
#include "worker/session/merge_parameters.h"

namespace longhaul::session {
namespace {

constexpr int64_t kElements = 300;

class OuterFragmentTest : public testing::Test {
 protected:
  OuterFragmentTest() {
    replica_ = *SyntheticReplica::Create(
        {.units = 1, .elements = kElements, .initial = 1, .inner_delta = -0.3});
    exact_ = *MakeCodec({.kind = CodecKind::kFp32});
    e3m0_ = *MakeCodec({.kind = CodecKind::kE3m0});
  }

  OuterFragment Make(bool feedback = false) {
    const FragmentLayout layout{.name = "0", .units = {{0, 0, kElements}}, .elements = kElements};
    return OuterFragment(FragmentMap(layout, OwnedBlocks(layout, 0, 1)),
                         {.up = e3m0_.get(),
                          .down = exact_.get(),
                          .exact = exact_.get(),
                          .error_feedback = feedback});
  }

  // fp32 blocks as a pull brings them; verified against the digest of `digest_of`.
  static absl::Status Bring(const std::vector<float>& values, const std::vector<float>& digest_of,
                            PulledParameters& into) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    const CodedChunk chunk{
        .segments = {{.first_block = 0, .elements = static_cast<int32_t>(values.size())}},
        .pieces = {{bytes, values.size() * 4}}};
    into.SetParts(1);
    into.Begin(0);
    EXPECT_TRUE(into.Take(0, chunk).ok());
    return into.Verify(1, {DigestOf(BytesOf(digest_of))});
  }
  static absl::Status LoadWhole(OuterFragment& fragment, const std::vector<float>& values) {
    PulledParameters pulled = fragment.BeginWhole();
    const absl::Status brought = Bring(values, values, pulled);
    if (brought.ok()) fragment.LoadWhole(0, std::move(pulled));
    return brought;
  }
  static absl::Status Stage(OuterFragment& fragment, int64_t version,
                            const std::vector<float>& values, const std::vector<float>& result) {
    absl::StatusOr<std::optional<PulledParameters>> pulled = fragment.BeginDownlink(version);
    if (!pulled.ok() || !pulled->has_value()) return pulled.status();
    const absl::Status brought = Bring(values, result, **pulled);
    return brought.ok() ? fragment.StageDownlink(version, **std::move(pulled)) : brought;
  }

  std::vector<float> Live() {
    std::vector<float> live(kElements);
    EXPECT_TRUE(replica_->Read(0, 0, absl::MakeSpan(live)).ok());
    return live;
  }

  std::unique_ptr<SyntheticReplica> replica_;
  std::unique_ptr<Codec> exact_, e3m0_;
};

TEST_F(OuterFragmentTest, ASeedIsTheLiveParametersExactly) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.kind = RoundKind::kSeed}).ok());
  const auto coded = fragment.Encode(0);
  ASSERT_TRUE(coded.ok());
  std::vector<float> decoded(kElements);
  ASSERT_TRUE(
      exact_->Decode({kElements, 0, (*coded)->blocks.payload.span()}, absl::MakeSpan(decoded))
          .ok());
  EXPECT_EQ(decoded, Live());
}

TEST_F(OuterFragmentTest, AContributionHasThePayloadOfItsCodec) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(LoadWhole(fragment, std::vector<float>(kElements, 1)).ok());
  ASSERT_TRUE(replica_->Step(1).ok());
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.version = 1}).ok());
  const auto coded = fragment.Encode(1);
  ASSERT_TRUE(coded.ok());
  EXPECT_EQ((*coded)->blocks.payload.size(), 150u + 3u);
  EXPECT_EQ(*fragment.Encode(1), *coded) << "without a new snapshot the kept bytes are given again";
}

// A connection that comes back before the next snapshot asks for the bytes of that one.
TEST_F(OuterFragmentTest, TheBytesOfASeedAreNotThoseOfTheFirstRound) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.kind = RoundKind::kSeed}).ok());
  ASSERT_NE(*fragment.Encode(0), nullptr);
  EXPECT_EQ(*fragment.Encode(1), nullptr);
  ASSERT_TRUE(LoadWhole(fragment, std::vector<float>(kElements, 1)).ok());
  EXPECT_EQ(*fragment.Encode(0), nullptr);
}

TEST_F(OuterFragmentTest, MergeBlendsAndDropsTheKeptBytes) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(LoadWhole(fragment, std::vector<float>(kElements, 1)).ok());
  std::vector<float> downlink(kElements, 2), result(kElements, 3);
  ASSERT_TRUE(Stage(fragment, 1, downlink, result).ok());
  EXPECT_EQ(fragment.outer(), std::vector<float>(kElements, 1))
      << "only Merge changes the outer parameters";
  ASSERT_TRUE(fragment.Merge(*replica_, 0.5, true).ok());
  EXPECT_EQ(fragment.outer(), result);
  EXPECT_EQ(Live(), std::vector<float>(kElements, 2));
  EXPECT_EQ(*fragment.Encode(1), nullptr);
}

TEST_F(OuterFragmentTest, APullThatIsOvertakenByAMergeReadsWhatItBeganWith) {
  OuterFragment fragment = Make();
  const std::vector<float> ones(kElements, 1), twos(kElements, 2), threes(kElements, 3);
  ASSERT_TRUE(LoadWhole(fragment, ones).ok());
  auto late = fragment.BeginDownlink(1);  // Of a connection that was lost.
  ASSERT_TRUE(late.ok());
  ASSERT_TRUE(Stage(fragment, 1, twos, threes).ok());
  ASSERT_TRUE(fragment.Merge(*replica_, 0, true).ok());
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.version = 1})
                  .ok());  // Would reuse what the merge replaced.
  EXPECT_TRUE(Bring(twos, threes, **late).ok());
  EXPECT_EQ(fragment.outer(), threes);
}

TEST_F(OuterFragmentTest, AWrongDigestIsRefusedAndChangesNothing) {
  OuterFragment fragment = Make();
  const std::vector<float> ones(kElements, 1), twos(kElements, 2);
  ASSERT_TRUE(LoadWhole(fragment, ones).ok());
  PulledParameters whole = fragment.BeginWhole();
  EXPECT_TRUE(absl::IsDataLoss(Bring(twos, ones, whole)));
  EXPECT_TRUE(absl::IsDataLoss(Stage(fragment, 1, twos, ones)));
  EXPECT_EQ(fragment.outer(), ones);
}

// With a quorum, a pool that fell behind pulls the whole fragment while an older pull is under way.
TEST_F(OuterFragmentTest, ADownlinkThatIsOlderThanTheWholeFragmentIsDropped) {
  OuterFragment fragment = Make();
  const std::vector<float> zeros(kElements), ones(kElements, 1), twos(kElements, 2);
  ASSERT_TRUE(LoadWhole(fragment, zeros).ok());
  absl::StatusOr<std::optional<PulledParameters>> late = fragment.BeginDownlink(1);
  ASSERT_TRUE(late.ok() && late->has_value());
  ASSERT_TRUE(Bring(ones, ones, **late).ok());
  // One that is staged goes, too.
  ASSERT_TRUE(Stage(fragment, 1, ones, ones).ok());
  PulledParameters whole = fragment.BeginWhole();
  ASSERT_TRUE(Bring(twos, twos, whole).ok());
  fragment.LoadWhole(2, std::move(whole));
  EXPECT_TRUE(fragment.StageDownlink(1, **std::move(late)).ok());
  EXPECT_EQ(fragment.outer(), twos);
  ASSERT_TRUE(Stage(fragment, 3, zeros, twos).ok());
  ASSERT_TRUE(fragment.Merge(*replica_, 0, false).ok());
  EXPECT_EQ(fragment.outer(), twos);
}

TEST_F(OuterFragmentTest, StagingTheSameVersionAgainIsOk) {
  OuterFragment fragment = Make();
  const std::vector<float> zeros(kElements);
  ASSERT_TRUE(Stage(fragment, 1, zeros, zeros).ok());
  EXPECT_TRUE(Stage(fragment, 1, zeros, zeros).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Stage(fragment, 2, zeros, zeros)));
}

TEST_F(OuterFragmentTest, ErrorFeedbackAdvancesOnlyWhenTheContributionCounted) {
  for (const bool counted : {false, true}) {
    OuterFragment fragment = Make(/*feedback=*/true);
    const std::vector<float> outer(kElements, 0.9f), zeros(kElements);
    ASSERT_TRUE(LoadWhole(fragment, outer).ok());
    std::vector<float> live(kElements);
    for (int i = 0; i < kElements; ++i) live[i] = 0.001f * static_cast<float>(i);
    ASSERT_TRUE(replica_->Write(0, 0, live).ok());
    ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.version = 1}).ok());
    const auto first = *fragment.Encode(1);
    ASSERT_TRUE(Stage(fragment, 1, zeros, outer).ok());
    ASSERT_TRUE(fragment.Merge(*replica_, 1, counted).ok());
    ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.version = 1}).ok());
    const auto second = *fragment.Encode(1);
    EXPECT_EQ(first->blocks.payload.span() == second->blocks.payload.span(), !counted);
  }
}

TEST_F(OuterFragmentTest, InfiniteParametersAreRefused) {
  OuterFragment fragment = Make();
  const float infinite = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(replica_->Write(0, 7, absl::MakeConstSpan(&infinite, 1)).ok());
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_, {.version = 1}).ok());
  EXPECT_EQ(fragment.Encode(1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OuterFragmentTest, EvaluationLeavesTheLiveParametersAsTheyWere) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(replica_->Step(1).ok());
  const std::vector<float> live = Live();
  ASSERT_TRUE(LoadWhole(fragment, std::vector<float>(kElements, 5)).ok());
  ASSERT_TRUE(fragment.SaveLive(*replica_).ok());
  ASSERT_TRUE(fragment.Install(*replica_).ok());
  EXPECT_EQ(Live(), std::vector<float>(kElements, 5));
  ASSERT_TRUE(fragment.RestoreLive(*replica_).ok());
  EXPECT_EQ(Live(), live);
}

TEST(MergeParametersTest, AnyNumberOfThreadsGivesTheSameBits) {
  std::vector<float> outer(200'003), live(outer.size());
  for (size_t i = 0; i < live.size(); ++i) {
    outer[i] = 0.37f * static_cast<float>(i % 1009);
    live[i] = -0.11f * static_cast<float>(i % 997);
  }
  std::vector<float> alone = live;
  MergeParameters(0.3, outer, absl::MakeSpan(alone), nullptr);
  EXPECT_EQ(alone[500], 0.3f * live[500] + 0.7f * outer[500]);
  for (const int threads : {1, 2, 5}) {
    ThreadTeam team(threads);
    std::vector<float> merged = live;
    MergeParameters(0.3, outer, absl::MakeSpan(merged), &team);
    EXPECT_EQ(merged, alone) << threads;
  }
}

}  // namespace
}  // namespace longhaul::session
