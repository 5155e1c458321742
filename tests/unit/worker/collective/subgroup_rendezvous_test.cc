#include "worker/collective/subgroup_rendezvous.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/thread_communicator.h"

namespace longhaul {
namespace {

TEST(SubgroupRendezvousTest, EachGroupGetsTheBlobsOfItsMembers) {
  const auto parents = MakeThreadCommunicators(4);
  const std::vector<std::vector<int>> groups = {{0, 2}, {3, 1}};
  std::vector<absl::StatusOr<std::vector<std::string>>> results(4);
  std::vector<std::thread> threads;
  for (int group = 0; group < 2; ++group) {
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, group, rank] {
        const int parent_rank = groups[group][rank];
        SubgroupRendezvous rendezvous(*parents[parent_rank], groups[group]);
        results[parent_rank] =
            rendezvous.Exchange(rank, std::string(parent_rank, 'x'), absl::Seconds(60));
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*results[0], (std::vector<std::string>{"", "xx"}));
  EXPECT_EQ(*results[1], (std::vector<std::string>{"xxx", "x"}));
  EXPECT_EQ(*results[2], *results[0]);
  EXPECT_EQ(*results[3], *results[1]);
}

TEST(SubgroupRendezvousTest, RefusesARankOfAnotherCaller) {
  const auto parents = MakeThreadCommunicators(2);
  SubgroupRendezvous rendezvous(*parents[0], {1});
  EXPECT_TRUE(absl::IsInvalidArgument(rendezvous.Exchange(0, "", absl::Seconds(60)).status()));
  SubgroupRendezvous outside(*parents[0], {0, 2});
  EXPECT_TRUE(absl::IsInvalidArgument(outside.Exchange(0, "", absl::Seconds(60)).status()));
}

}  // namespace
}  // namespace longhaul
