#include "worker/session/uplink_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::session {
namespace {

using testing::Each;
using testing::SizeIs;

// Two fragments: units 0 and 2 with a gap between them, and unit 1.
std::vector<FragmentLayout> UplinkLayouts() {
  return {{.name = "0", .units = {{0, 0, 300}, {2, 384, 200}}, .elements = 584},
          {.name = "1", .units = {{1, 0, 500}}, .elements = 500}};
}

class UplinkStateTest : public testing::Test {
 protected:
  std::vector<std::unique_ptr<OuterFragment>> Fragments(int rank, int ranks,
                                                        bool feedback = true) const {
    std::vector<std::unique_ptr<OuterFragment>> fragments;
    for (const FragmentLayout& layout : UplinkLayouts()) {
      fragments.push_back(
          std::make_unique<OuterFragment>(FragmentMap(layout, OwnedBlocks(layout, rank, ranks)),
                                          OuterFragment::Options{.up = int4_.get(),
                                                                 .down = exact_.get(),
                                                                 .exact = exact_.get(),
                                                                 .error_feedback = feedback}));
    }
    return fragments;
  }
  static std::vector<float> Owed(const OuterFragment& fragment) {
    std::vector<float> owed(fragment.map().elements());
    EXPECT_TRUE(fragment.ReadFeedback(absl::MakeSpan(owed)).ok());
    return owed;
  }
  // What each element owes follows from its unit and place.
  static float OwedBy(int unit, int64_t element) {
    return static_cast<float>(unit * 1000 + element + 1);
  }
  static void Fill(OuterFragment& fragment) {
    std::vector<float> owed(fragment.map().elements());
    for (const FragmentMap::Piece& piece : fragment.map().pieces()) {
      for (int64_t i = 0; i < piece.elements; ++i)
        owed[piece.local_offset + i] = OwedBy(piece.unit, piece.unit_offset + i);
    }
    EXPECT_TRUE(fragment.WriteFeedback(owed).ok());
  }

  const std::unique_ptr<Codec> exact_ = *MakeCodec({.kind = CodecKind::kFp32});
  const std::unique_ptr<Codec> int4_ = *MakeCodec({.kind = CodecKind::kInt4});
};

TEST_F(UplinkStateTest, IsPutBackWhereTheVersionIsStillTheSame) {
  auto before = Fragments(1, 2);
  for (const auto& fragment : before) Fill(*fragment);
  InnerState state;
  const StateBeside saved = UplinkState(before, [] { return std::vector<int64_t>{4, 5}; });
  ASSERT_TRUE(saved.take(0, state).ok());
  EXPECT_EQ(PhaseValue(state.phase, "uplink_version/1"), 5);
  std::vector<InnerStateSlot> taken;
  for (const InnerStatePart& part : state.parts) taken.push_back(part.slot);
  EXPECT_EQ(taken, saved.slots());

  auto after = Fragments(1, 2);
  const StateBeside put = UplinkState(after, [] { return std::vector<int64_t>{4, 6}; });
  ASSERT_TRUE(put.put(state).ok());
  EXPECT_EQ(Owed(*after[0]), Owed(*before[0]));
  EXPECT_THAT(Owed(*after[1]), Each(0));
  // The contribution of an earlier start counts now.
  after[0]->ForgetFeedback();
  EXPECT_THAT(Owed(*after[0]), Each(0));
}

TEST_F(UplinkStateTest, WhatIsMissingOwesNothing) {
  auto fragments = Fragments(0, 1);
  const StateBeside beside = UplinkState(fragments, [] { return std::vector<int64_t>{4, 5}; });
  InnerState state{.phase = {{"uplink_version/0", 4}, {"uplink_version/1", 5}}};
  PartFor(beside.slots()[0], 0, state).values.assign(300, 7);
  ASSERT_TRUE(beside.put(state).ok());
  const std::vector<float> owed = Owed(*fragments[0]);
  EXPECT_EQ(owed[299], 7);
  EXPECT_THAT(std::vector<float>(owed.begin() + 300, owed.end()), Each(0));
}

TEST_F(UplinkStateTest, WithoutErrorFeedbackThereIsNone) {
  auto fragments = Fragments(0, 1, /*feedback=*/false);
  const StateBeside beside = UplinkState(fragments, [] { return std::vector<int64_t>{1, 1}; });
  InnerState state;
  ASSERT_TRUE(beside.take(0, state).ok());
  EXPECT_THAT(state.parts, SizeIs(0));
  EXPECT_THAT(beside.slots(), SizeIs(0));
  EXPECT_TRUE(beside.put(state).ok());
}

}  // namespace
}  // namespace longhaul::session
