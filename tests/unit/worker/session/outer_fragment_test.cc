#include "worker/session/outer_fragment.h"

#include <cstring>
#include <limits>

#include "common/io/digest.h"
#include "gtest/gtest.h"
#include "worker/replica/synthetic_replica.h"

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
    return OuterFragment(FragmentMap(layout, 0, 1), {.up = e3m0_.get(),
                                                     .down = exact_.get(),
                                                     .exact = exact_.get(),
                                                     .error_feedback = feedback});
  }

  // fp32 blocks as a pull brings them, with the digest of `digest_of`.
  static std::vector<PulledBlocks> Parts(const std::vector<float>& values,
                                         const std::vector<float>& digest_of) {
    PulledBlocks part;
    const Digest128 digest = DigestOf(BytesOf(digest_of));
    part.header.mutable_digest()->set_high(digest.high);
    part.header.mutable_digest()->set_low(digest.low);
    part.blocks.segments = {{.first_block = 0, .elements = static_cast<int32_t>(values.size())}};
    part.blocks.payload = AlignedBuffer(values.size() * 4);
    std::memcpy(part.blocks.payload.data(), values.data(), values.size() * 4);
    std::vector<PulledBlocks> parts;
    parts.push_back(std::move(part));
    return parts;
  }
  static std::vector<PulledBlocks> Parts(const std::vector<float>& values) {
    return Parts(values, values);
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
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_).ok());
  const auto coded = fragment.Encode(RoundKind::kSeed);
  ASSERT_TRUE(coded.ok());
  std::vector<float> decoded(kElements);
  ASSERT_TRUE(exact_->Decode(0, (*coded)->bytes, absl::MakeSpan(decoded)).ok());
  EXPECT_EQ(decoded, Live());
}

TEST_F(OuterFragmentTest, AContributionHasThePayloadOfItsCodec) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(fragment.LoadWhole(Parts(std::vector<float>(kElements, 1))).ok());
  ASSERT_TRUE(replica_->Step(1).ok());
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_).ok());
  const auto coded = fragment.Encode(RoundKind::kOuter);
  ASSERT_TRUE(coded.ok());
  EXPECT_EQ((*coded)->bytes.size(), 150u + 3u);
  EXPECT_EQ(*fragment.Encode(RoundKind::kOuter), *coded)
      << "without a new snapshot the kept bytes are given again";
}

TEST_F(OuterFragmentTest, MergeBlendsAndDropsTheKeptBytes) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(fragment.LoadWhole(Parts(std::vector<float>(kElements, 1))).ok());
  std::vector<float> downlink(kElements, 2), result(kElements, 3);
  ASSERT_TRUE(fragment.StageDownlink(1, Parts(downlink, result)).ok());
  EXPECT_EQ(fragment.outer(), std::vector<float>(kElements, 1))
      << "only Merge changes the outer parameters";
  ASSERT_TRUE(fragment.Merge(*replica_, 0.5, true).ok());
  EXPECT_EQ(fragment.outer(), result);
  EXPECT_EQ(Live(), std::vector<float>(kElements, 2));
  EXPECT_EQ(*fragment.Encode(RoundKind::kOuter), nullptr);
}

TEST_F(OuterFragmentTest, AWrongDigestIsRefusedAndChangesNothing) {
  OuterFragment fragment = Make();
  const std::vector<float> ones(kElements, 1), twos(kElements, 2);
  ASSERT_TRUE(fragment.LoadWhole(Parts(ones)).ok());
  EXPECT_EQ(fragment.LoadWhole(Parts(twos, ones)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(fragment.StageDownlink(1, Parts(twos, ones)).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(fragment.outer(), ones);
}

TEST_F(OuterFragmentTest, StagingTheSameVersionAgainIsOk) {
  OuterFragment fragment = Make();
  const std::vector<float> zeros(kElements);
  ASSERT_TRUE(fragment.StageDownlink(1, Parts(zeros)).ok());
  EXPECT_TRUE(fragment.StageDownlink(1, Parts(zeros)).ok());
  EXPECT_EQ(fragment.StageDownlink(2, Parts(zeros)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OuterFragmentTest, ErrorFeedbackAdvancesOnlyWhenTheContributionCounted) {
  for (const bool counted : {false, true}) {
    OuterFragment fragment = Make(/*feedback=*/true);
    const std::vector<float> outer(kElements, 0.9f), zeros(kElements);
    ASSERT_TRUE(fragment.LoadWhole(Parts(outer)).ok());
    std::vector<float> live(kElements);
    for (int i = 0; i < kElements; ++i) live[i] = 0.001f * static_cast<float>(i);
    ASSERT_TRUE(replica_->Write(0, 0, live).ok());
    ASSERT_TRUE(fragment.TakeSnapshot(*replica_).ok());
    const auto first = (*fragment.Encode(RoundKind::kOuter))->bytes;
    ASSERT_TRUE(fragment.StageDownlink(1, Parts(zeros, outer)).ok());
    ASSERT_TRUE(fragment.Merge(*replica_, 1, counted).ok());
    ASSERT_TRUE(fragment.TakeSnapshot(*replica_).ok());
    const auto second = (*fragment.Encode(RoundKind::kOuter))->bytes;
    EXPECT_EQ(first == second, !counted);
  }
}

TEST_F(OuterFragmentTest, InfiniteParametersAreRefused) {
  OuterFragment fragment = Make();
  const float infinite = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(replica_->Write(0, 7, absl::MakeConstSpan(&infinite, 1)).ok());
  ASSERT_TRUE(fragment.TakeSnapshot(*replica_).ok());
  EXPECT_EQ(fragment.Encode(RoundKind::kOuter).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OuterFragmentTest, EvaluationLeavesTheLiveParametersAsTheyWere) {
  OuterFragment fragment = Make();
  ASSERT_TRUE(replica_->Step(1).ok());
  const std::vector<float> live = Live();
  ASSERT_TRUE(fragment.LoadWhole(Parts(std::vector<float>(kElements, 5))).ok());
  ASSERT_TRUE(fragment.SaveLive(*replica_).ok());
  ASSERT_TRUE(fragment.Install(*replica_).ok());
  EXPECT_EQ(Live(), std::vector<float>(kElements, 5));
  ASSERT_TRUE(fragment.RestoreLive(*replica_).ok());
  EXPECT_EQ(Live(), live);
}

}  // namespace
}  // namespace longhaul::session
