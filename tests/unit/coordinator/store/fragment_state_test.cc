#include "coordinator/store/fragment_state.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

class FragmentStateTest : public testing::Test {
 protected:
  // Applies a round of this kind with one contribution.
  absl::StatusOr<RoundSums> Apply(RoundKind kind, const std::vector<float>& values,
                                  FragmentState& state) {
    std::vector<Contribution> inputs;
    if (kind != RoundKind::kSkipped) {
      const CodedPart coded = Code({}, values);
      const auto frame = log_.Append(FrameType::kPart, "", {coded.payload});
      inputs.push_back({"p", 1, {{coded.info, frame->body, frame->body_digest}}});
    }
    auto contributions = *ContributionReader::Create(&log_, state.elements(), inputs);
    const auto sink = [&](const SegmentRef& segment, absl::Span<const uint8_t>) {
      downlink_.push_back(segment);
      return sink_status_;
    };
    std::vector<uint8_t> downlink(rules_.down->FragmentBytes(state.elements()));
    return ApplyToState(rules_, kind,
                        {.contributions = &contributions,
                         .downlink = absl::MakeSpan(downlink),
                         .sink = sink,
                         .threads = threads_},
                        state);
  }

  MemoryFileSystem fs_;
  Log log_{&fs_, "", {.file_bytes = 1 << 20, .salt = 1}, LogStart()};
  const OuterRules rules_ = *MakeOuterRules(SmallOptions());
  std::vector<SegmentRef> downlink_;
  absl::Status sink_status_;
  int threads_ = 1;
};

TEST_F(FragmentStateTest, ASeedReplacesEverything) {
  FragmentState state(3);
  state.momentum = state.error = FloatArray({1, 1, 1});
  const auto sums = Apply(RoundKind::kSeed, {1, 2, 3}, state);
  ASSERT_TRUE(sums.ok());
  EXPECT_THAT(state.theta, ElementsAre(1, 2, 3));
  EXPECT_THAT(state.momentum, ElementsAreArray(std::vector<float>(3, 0.0f)));
  EXPECT_THAT(state.error, ElementsAreArray(std::vector<float>(3, 0.0f)));
  EXPECT_EQ(sums->digest, DigestOf(BytesOf(state.theta)));
  EXPECT_EQ(sums->parameter_energy, 14);
  EXPECT_TRUE(downlink_.empty());
}

TEST_F(FragmentStateTest, AnOuterRoundWorksTileByTile) {
  const int64_t elements = kTileElements + 10;
  FragmentState state(elements);
  const auto sums = Apply(RoundKind::kOuter, std::vector<float>(elements, 0.5f), state);
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_THAT(state.theta, ElementsAreArray(std::vector<float>(elements, -1.0f)));
  EXPECT_EQ(downlink_, (std::vector<SegmentRef>{{0, 65536, 0}, {512, 10, 0}}));
  EXPECT_EQ(sums->digest, DigestOf(BytesOf(state.theta)));
  EXPECT_EQ(sums->gradient_energy, elements * 0.25);
  EXPECT_EQ(sums->downlink_bytes, elements * 4);
}

TEST_F(FragmentStateTest, AFinalRoundIsAPlainAverage) {
  FragmentState state(2);
  state.theta = FloatArray({10, 20});
  ASSERT_TRUE(Apply(RoundKind::kFinal, {1, 2}, state).ok());
  EXPECT_THAT(state.theta, ElementsAre(9, 18));
}

TEST_F(FragmentStateTest, ASkippedRoundChangesNothing) {
  FragmentState state(2);
  state.theta = FloatArray({10, 20});
  state.digest = {1, 2};
  const auto sums = Apply(RoundKind::kSkipped, {}, state);
  ASSERT_TRUE(sums.ok());
  EXPECT_THAT(state.theta, ElementsAre(10, 20));
  EXPECT_EQ(sums->digest, (Digest128{1, 2}));
  EXPECT_EQ(sums->parameter_energy, 500);
}

TEST_F(FragmentStateTest, ThreadsShareTheTiles) {
  const std::vector<float> values = NoiseOf(6 * kTileElements + 10, 1);
  FragmentState alone(values.size()), shared(values.size());
  for (const RoundKind kind : {RoundKind::kSeed, RoundKind::kOuter, RoundKind::kFinal}) {
    threads_ = 1;
    const auto sums = Apply(kind, values, alone);
    threads_ = 4;
    const auto same = Apply(kind, values, shared);
    ASSERT_TRUE(sums.ok() && same.ok());
    EXPECT_EQ(same->digest, sums->digest);
    EXPECT_EQ(same->parameter_energy, sums->parameter_energy);
    EXPECT_EQ(same->gradient_energy, sums->gradient_energy);
  }
  EXPECT_THAT(shared.theta, ElementsAreArray(alone.theta));
  EXPECT_THAT(shared.momentum, ElementsAreArray(alone.momentum));
}

TEST_F(FragmentStateTest, StopsWhenTheDownlinkCannotBeWritten) {
  FragmentState state(2);
  sink_status_ = absl::DataLossError("gone");
  EXPECT_TRUE(absl::IsDataLoss(Apply(RoundKind::kOuter, {1, 2}, state).status()));
}

}  // namespace
}  // namespace longhaul
