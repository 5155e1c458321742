#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/simulation/event_loop.h"
#include "common/simulation/network.h"

namespace longhaul::sim {
namespace {

absl::Time Ms(int64_t ms) { return absl::UnixEpoch() + absl::Milliseconds(ms); }

TEST(EventLoopTest, RunsInTheOrderOfTimeThenOfScheduling) {
  EventLoop loop;
  std::string order;
  loop.At(Ms(2), [&] { order += "c"; });
  loop.At(Ms(1), [&] {
    order += "a";
    loop.After(absl::ZeroDuration(), [&] { order += "x"; });
    // This time has passed, so it runs now.
    loop.At(Ms(0), [&] { order += "y"; });
  });
  loop.At(Ms(1), [&] { order += "b"; });
  while (loop.RunOne()) {
  }
  EXPECT_EQ(order, "abxyc");
  EXPECT_EQ(loop.now(), Ms(2));
  EXPECT_EQ(loop.events_run(), 5);
}

TEST(EventLoopTest, StopsAtTheLimit) {
  EventLoop loop;
  loop.At(Ms(5), [] { FAIL(); });
  EXPECT_FALSE(loop.RunOne(Ms(4)));
  EXPECT_EQ(loop.now(), Ms(4));
}

class NetworkTest : public testing::Test {
 protected:
  void Run() {
    while (loop_.RunOne()) {
    }
  }
  std::function<void()> Note(const std::string& what) {
    return [this, what] {
      heard_.push_back(what + "@" + absl::FormatDuration(loop_.now() - absl::UnixEpoch()));
    };
  }

  EventLoop loop_;
  Network network_{&loop_, 1};
  std::vector<std::string> heard_;
};

TEST_F(NetworkTest, DeliversAfterTheDelay) {
  network_.SetLink(1, 2, {.delay_min = absl::Milliseconds(7), .delay_mean = absl::Milliseconds(7)});
  const ConnectionPtr c = network_.Connect(1, 2, nullptr, nullptr);
  network_.Send(c, 1, 100, Note("ping"));
  Run();
  EXPECT_EQ(heard_, std::vector<std::string>{"ping@7ms"});
}

TEST_F(NetworkTest, ABandwidthIsSharedByTheConnectionsOfADirection) {
  network_.SetLink(1, 2,
                   {.delay_min = absl::Milliseconds(1),
                    .delay_mean = absl::Milliseconds(1),
                    .bytes_per_second = 1000});
  const ConnectionPtr one = network_.Connect(1, 2, nullptr, nullptr),
                      two = network_.Connect(1, 2, nullptr, nullptr);
  network_.Send(one, 1, 100, Note("first"));
  network_.Send(two, 1, 100, Note("second"));
  network_.Send(one, 2, 100, Note("back"));
  Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"first@101ms", "back@101ms", "second@201ms"}));
}

TEST_F(NetworkTest, EachDirectionOfALinkMayHaveABandwidthOfItsOwn) {
  network_.SetLink(1, 2,
                   {.delay_min = absl::Milliseconds(1),
                    .delay_mean = absl::Milliseconds(1),
                    .bytes_per_second = 1000,
                    .back_bytes_per_second = 100});
  const ConnectionPtr c = network_.Connect(2, 1, nullptr, nullptr);
  network_.Send(c, 1, 10, Note("there"));
  network_.Send(c, 2, 10, Note("back"));
  network_.Send(network_.Connect(1, 2, nullptr, nullptr), 2, 0, Note("beside"));
  Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"beside@1ms", "there@11ms", "back@101ms"}));
}

TEST_F(NetworkTest, LinksOfANodeShareItsPort) {
  network_.SetPort(0, 1000, 100);
  for (const int node : {1, 2}) {
    network_.SetLink(0, node,
                     {.delay_min = absl::Milliseconds(1), .delay_mean = absl::Milliseconds(1)});
  }
  const ConnectionPtr one = network_.Connect(0, 1, nullptr, nullptr),
                      two = network_.Connect(0, 2, nullptr, nullptr);
  network_.Send(one, 0, 10, Note("out"));
  network_.Send(two, 0, 10, Note("out after it"));
  network_.Send(one, 1, 10, Note("in"));
  network_.Send(two, 2, 10, Note("in after it"));
  Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"out@11ms", "out after it@21ms", "in@101ms",
                                              "in after it@201ms"}));
}

TEST_F(NetworkTest, KeepsTheOrderWithinAConnection) {
  network_.SetLink(1, 2,
                   {.delay_min = absl::Milliseconds(1), .delay_mean = absl::Milliseconds(50)});
  const ConnectionPtr c = network_.Connect(1, 2, nullptr, nullptr);
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) network_.Send(c, 1, 1, [&order, i] { order.push_back(i); });
  Run();
  ASSERT_EQ(order.size(), 50);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(NetworkTest, ABreakLosesMessagesInFlightAndTellsEachEndOnce) {
  const ConnectionPtr c = network_.Connect(1, 2, Note("one"), Note("two"));
  network_.Send(c, 1, 1, Note("lost"));
  network_.Break(c);
  network_.Break(c);
  network_.Send(c, 2, 1, Note("lost"));
  Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"one@0", "two@0"}));
}

TEST_F(NetworkTest, APartitionBreaksAndRefusesUntilItIsHealed) {
  const ConnectionPtr inside = network_.Connect(1, 2, Note("broken"), nullptr);
  const ConnectionPtr outside = network_.Connect(1, 3, Note("wrong"), nullptr);
  network_.Partition(2, 1);
  EXPECT_EQ(network_.Connect(1, 2, nullptr, nullptr), nullptr);
  EXPECT_NE(network_.Connect(1, 3, nullptr, nullptr), nullptr);
  network_.Heal(1, 2);
  EXPECT_NE(network_.Connect(1, 2, nullptr, nullptr), nullptr);
  Run();
  EXPECT_EQ(heard_, std::vector<std::string>{"broken@0"});
}

TEST_F(NetworkTest, ANodeThatDiesBreaksAllItsConnections) {
  const ConnectionPtr a = network_.Connect(1, 2, Note("a"), nullptr);
  const ConnectionPtr b = network_.Connect(3, 1, Note("b"), nullptr);
  const ConnectionPtr c = network_.Connect(3, 2, Note("c"), nullptr);
  network_.BreakAll(1);
  Run();
  EXPECT_EQ(heard_, (std::vector<std::string>{"a@0", "b@0"}));
}

TEST_F(NetworkTest, ALossyLinkBreaksConnections) {
  network_.SetLink(1, 2, {.break_probability = 0.5});
  int broken = 0, delivered = 0;
  for (int i = 0; i < 200; ++i) {
    const ConnectionPtr c = network_.Connect(
        1, 2, [&] { ++broken; }, nullptr);
    network_.Send(c, 1, 1, [&] { ++delivered; });
  }
  Run();
  EXPECT_EQ(broken + delivered, 200);
  EXPECT_GT(broken, 60);
  EXPECT_GT(delivered, 60);
}

}  // namespace
}  // namespace longhaul::sim
