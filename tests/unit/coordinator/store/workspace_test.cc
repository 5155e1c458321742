#include "coordinator/store/workspace.h"

#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

// Also for a thread that asks for another turn as soon as it has ended one.
TEST(WorkspaceTest, TurnsComeOneByOneInTheOrderInWhichTheyWereAskedFor) {
  Workspace workspace;
  std::vector<int> order;
  std::vector<std::jthread> threads;
  {
    std::optional<Workspace::Turn> first(workspace);
    for (int i = 1; i <= 4; ++i) {
      threads.emplace_back([&, i] {
        const Workspace::Turn turn(workspace);
        order.push_back(i);
      });
      while (workspace.asked() != static_cast<uint64_t>(i) + 1) std::this_thread::yield();
    }
    EXPECT_TRUE(order.empty());
    first.reset();
    first.emplace(workspace);
    order.push_back(0);
  }
  threads.clear();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4, 0));
}

}  // namespace
}  // namespace longhaul
