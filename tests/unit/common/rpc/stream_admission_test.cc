#include "common/rpc/stream_admission.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using Ticket = StreamAdmission::Ticket;

// As many streams of `bytes` as are admitted.
std::vector<Ticket> Fill(StreamAdmission& admission, const std::string& owner, int64_t bytes) {
  std::vector<Ticket> tickets;
  for (auto ticket = admission.Admit(owner, bytes); ticket.ok();
       ticket = admission.Admit(owner, bytes)) {
    tickets.push_back(*std::move(ticket));
  }
  return tickets;
}

TEST(StreamAdmissionTest, StreamsAreNotCounted) {
  StreamAdmission admission({.bytes_max = 1000});
  EXPECT_EQ(Fill(admission, "a", 1).size(), 500u);
  EXPECT_TRUE(admission.Admit("b", 0).ok());
}

TEST(StreamAdmissionTest, ARefusedOwnerIsToldWhenToReturn) {
  StreamAdmission admission({.bytes_max = 100, .retry_delay = absl::Seconds(2)});
  const auto admitted = admission.Admit("a", 50);
  ASSERT_TRUE(admitted.ok());
  const auto refused = admission.Admit("a", 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(RetryDelayOf(refused.status()), absl::Seconds(2));
  EXPECT_FALSE(admission.Admit("b", 26).ok());
  EXPECT_TRUE(admission.Admit("b", 25).ok());
}

TEST(StreamAdmissionTest, ANewOwnerAlwaysFindsRoom) {
  StreamAdmission admission({.bytes_max = int64_t{512} << 20});
  constexpr int64_t kStream = 2 << 20;
  std::vector<std::vector<Ticket>> greedy;
  for (int owner = 0; owner < 6; ++owner) {
    greedy.push_back(Fill(admission, absl::StrCat(owner), kStream));
    EXPECT_FALSE(greedy.back().empty()) << owner;
    EXPECT_LE(admission.bytes(), int64_t{512} << 20);
  }
}

// While streams end and new ones come, the shares become equal.
TEST(StreamAdmissionTest, BusyOwnersGetEqualParts) {
  StreamAdmission admission({.bytes_max = 400});
  std::vector<std::vector<Ticket>> tickets(3);
  for (int round = 0; round < 200; ++round) {
    for (auto& own : tickets) {
      auto ticket = admission.Admit(absl::StrCat(&own - tickets.data()), 1);
      if (ticket.ok()) {
        own.push_back(*std::move(ticket));
      } else if (!own.empty()) {
        own.pop_back();
      }
    }
  }
  for (const auto& own : tickets) EXPECT_NEAR(static_cast<double>(own.size()), 100, 2);
}

TEST(StreamAdmissionTest, AnEndedStreamGivesItsShareBackOnce) {
  StreamAdmission admission({.bytes_max = 10});
  {
    auto a = admission.Admit("a", 5);
    ASSERT_TRUE(a.ok());
    Ticket moved = *std::move(a);
    Ticket assigned;
    assigned = std::move(moved);
    EXPECT_EQ(admission.streams(), 1);
    EXPECT_EQ(admission.bytes(), 5);
  }
  EXPECT_EQ(admission.streams(), 0);
  EXPECT_EQ(admission.bytes(), 0);
  EXPECT_TRUE(admission.Admit("b", 5).ok());
}

TEST(StreamAdmissionTest, AStreamOfANewOwnerFindsRoomBesideSoManyBusyOnes) {
  constexpr int64_t kStream = (2 << 20) + (64 << 10);
  StreamAdmission admission({});
  std::vector<Ticket> tickets;
  // They take turns until there is no room for any of them.
  for (size_t before = 1; before != tickets.size();) {
    before = tickets.size();
    for (int owner = 0; owner < 123; ++owner) {
      auto ticket = admission.Admit(absl::StrCat(owner), kStream);
      if (ticket.ok()) tickets.push_back(*std::move(ticket));
    }
  }
  EXPECT_TRUE(admission.Admit("new", kStream).ok());
}

}  // namespace
}  // namespace longhaul
