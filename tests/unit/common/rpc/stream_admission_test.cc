#include "common/rpc/stream_admission.h"

#include <utility>

#include "common/rpc/status_details.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(StreamAdmissionTest, RefusesMoreStreamsAndTellsWhenToReturn) {
  StreamAdmission admission({.streams_max = 2, .retry_delay = absl::Seconds(2)});
  auto a = admission.Admit();
  auto b = admission.Admit();
  ASSERT_TRUE(a.ok() && b.ok());
  const auto refused = admission.Admit();
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(RetryDelayOf(refused.status()), absl::Seconds(2));
}

TEST(StreamAdmissionTest, AnEndedStreamGivesItsPlaceBackOnce) {
  StreamAdmission admission({.streams_max = 1});
  {
    auto a = admission.Admit();
    ASSERT_TRUE(a.ok());
    StreamAdmission::Ticket moved = *std::move(a);
    StreamAdmission::Ticket assigned;
    assigned = std::move(moved);
    EXPECT_EQ(admission.streams(), 1);
  }
  EXPECT_EQ(admission.streams(), 0);
  EXPECT_TRUE(admission.Admit().ok());
}

}  // namespace
}  // namespace longhaul
