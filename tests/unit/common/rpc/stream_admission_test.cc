#include "common/rpc/stream_admission.h"

#include <utility>

#include "common/rpc/status_details.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(StreamAdmissionTest, RefusesMoreStreamsAndTellsWhenToReturn) {
  StreamAdmission admission({.streams_max = 2, .retry_delay = absl::Seconds(2)});
  auto a = admission.Admit(10);
  auto b = admission.Admit(10);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto refused = admission.Admit(10);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(RetryDelayOf(refused.status()), absl::Seconds(2));
}

TEST(StreamAdmissionTest, RefusesMoreBytes) {
  StreamAdmission admission({.bytes_max = 100});
  auto a = admission.Admit(60);
  ASSERT_TRUE(a.ok());
  EXPECT_FALSE(admission.Admit(41).ok());
  EXPECT_TRUE(admission.Admit(40).ok());
}

TEST(StreamAdmissionTest, AStreamLargerThanTheBoundComesAlone) {
  StreamAdmission admission({.bytes_max = 100});
  auto a = admission.Admit(1000);
  ASSERT_TRUE(a.ok());
  EXPECT_FALSE(admission.Admit(1).ok());
}

TEST(StreamAdmissionTest, AnEndedStreamGivesItsShareBackOnce) {
  StreamAdmission admission({.streams_max = 1});
  {
    auto a = admission.Admit(10);
    ASSERT_TRUE(a.ok());
    StreamAdmission::Ticket moved = *std::move(a);
    StreamAdmission::Ticket assigned;
    assigned = std::move(moved);
    EXPECT_EQ(admission.streams(), 1);
  }
  EXPECT_EQ(admission.streams(), 0);
  EXPECT_TRUE(admission.Admit(10).ok());
}

}  // namespace
}  // namespace longhaul
