// What the reference promises beyond the conformance suite.
#include "tests/testing/thread_communicator.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

constexpr CallOptions kMinute{.timeout = absl::Seconds(60)};

TEST(ThreadCommunicatorTest, ReportsRanksThatCallDifferentOperations) {
  const auto group = MakeThreadCommunicators(2);
  absl::Status statuses[2];
  std::thread other([&] { statuses[1] = group[1]->Barrier(kMinute); });
  std::vector<std::byte> data(8);
  statuses[0] = group[0]->Broadcast(absl::MakeSpan(data), 0, kMinute);
  other.join();
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rank 1 barrier"));
  }
  EXPECT_TRUE(absl::IsUnavailable(group[0]->Barrier(kMinute)));
}

TEST(ThreadCommunicatorTest, ReportsPartsThatDoNotMatch) {
  const auto group = MakeThreadCommunicators(2);
  absl::Status statuses[2];
  const auto call = [&](int rank, std::vector<Part> sends, std::vector<Part> receives) {
    std::vector<std::byte> input(8), output(8);
    statuses[rank] = group[rank]->AllToAll(input, sends, absl::MakeSpan(output), receives, kMinute);
  };
  std::thread other([&] { call(1, {{0, 3}, {3, 1}}, {{0, 4}, {4, 1}}); });
  call(0, {{0, 1}, {1, 4}}, {{0, 1}, {1, 2}});
  other.join();
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST(ThreadCommunicatorTest, ARankWhoseGroupNamesOtherMembersIsTold) {
  const auto group = MakeThreadCommunicators(2);
  std::thread other([&] { EXPECT_TRUE(group[1]->Split({1}, kMinute).ok()); });
  const absl::Status status = group[0]->Split({0, 1}, kMinute).status();
  other.join();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::IsUnavailable(group[1]->Barrier(kMinute)));
}

}  // namespace
}  // namespace longhaul
