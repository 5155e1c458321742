// Links in virtual time, as one transport connection (TCP, HTTP/2) shows them: messages of a
// connection arrive in their order, after a delay and the time that their bytes take; when the
// connection breaks, what is under way is lost, and each end hears of it once. Everything random
// comes from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/sim/event_loop.h"

namespace longhaul::sim {

struct LinkOptions {
  absl::Duration delay_min = absl::Milliseconds(1);  // One way.
  absl::Duration delay_mean =
      absl::Milliseconds(1);     // Above the minimum the delay is exponential, at most 20 means.
  double bytes_per_second = 0;   // Of each direction. 0: unlimited.
  double break_probability = 0;  // That a message breaks its connection instead of arriving.
};

class Connection;
using ConnectionPtr =
    std::shared_ptr<Connection>;  // Shared by both ends and the messages under way.

// Not thread-safe. Nodes are small numbers that the caller chooses.
class Network {
 public:
  Network(EventLoop* loop, uint64_t seed) : loop_(loop), random_(seed) {}

  // Of both directions between a and b, from now on.
  void SetLink(int a, int b, const LinkOptions& options);

  // `broken` runs at most once for each end, also when it breaks the connection itself. Null: the
  // nodes are partitioned.
  ConnectionPtr Connect(int a, int b, std::function<void()> broken_a,
                        std::function<void()> broken_b);
  // Runs `deliver` when the message arrives at the other end. Ignored on a broken connection.
  void Send(const ConnectionPtr& connection, int from, int64_t bytes,
            std::function<void()> deliver);
  void Break(const ConnectionPtr& connection);

  // Breaks every connection of the node.
  void BreakAll(int node);
  // Breaks the connections between a and b, and makes none until Heal.
  void Partition(int a, int b);
  void Heal(int a, int b);

  int64_t messages_sent() const { return messages_sent_; }

 private:
  struct Link {
    LinkOptions options;
    absl::Time free_at[2] = {absl::InfinitePast(),
                             absl::InfinitePast()};  // When each direction has sent what it has.
  };
  using Pair = std::pair<int, int>;
  static Pair PairOf(int a, int b) { return a < b ? Pair{a, b} : Pair{b, a}; }
  absl::Duration Delay(const LinkOptions& options);
  template <typename Predicate>
  void BreakIf(Predicate matches);

  EventLoop* loop_;
  Random random_;
  std::map<Pair, Link> links_;
  std::set<Pair> partitioned_;
  std::vector<ConnectionPtr> open_;
  int64_t messages_sent_ = 0;
};

}  // namespace longhaul::sim
