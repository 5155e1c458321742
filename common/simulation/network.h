// Links in virtual time. They behave as a transport connection (TCP, HTTP/2): messages arrive in
// order, after a delay and the time that their bytes take. If the connection breaks, messages in
// flight are lost, and each end hears of it once. One seed determines everything random.
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
#include "common/simulation/event_loop.h"

namespace longhaul::sim {

struct LinkOptions {
  // One way.
  absl::Duration delay_min = absl::Milliseconds(1);
  // The mean of the delay above the minimum. It is exponential, but at most 20 times the mean.
  absl::Duration delay_mean = absl::Milliseconds(1);
  // In each direction. 0: unlimited.
  double bytes_per_second = 0;
  // From the node with the higher number. 0: as bytes_per_second.
  double back_bytes_per_second = 0;
  // The probability that a message breaks its connection instead of arriving.
  double break_probability = 0;
};

class Connection;
// Shared by both ends and the messages in flight.
using ConnectionPtr = std::shared_ptr<Connection>;

// Not thread-safe. Nodes are small numbers that the caller chooses.
class Network {
 public:
  Network(EventLoop* loop, uint64_t seed) : loop_(loop), random_(seed) {}

  // Sets the link of both directions between a and b, from now on.
  void SetLink(int a, int b, const LinkOptions& options);

  // What all links of a node share, from now on: bytes per second that it sends and receives. They
  // are sent one message after another. 0: unlimited.
  void SetPort(int node, double out, double in);

  // `broken` runs at most once for each end, also for the end that breaks the connection. Returns
  // null if the nodes are partitioned.
  ConnectionPtr Connect(int a, int b, std::function<void()> broken_a,
                        std::function<void()> broken_b);
  // Runs `deliver` when the message arrives at the other end. Does nothing on a broken connection.
  // A message of 0 bytes does not wait for what others send over the link.
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
    // When each direction has sent all that it has.
    absl::Time free_at[2] = {absl::InfinitePast(), absl::InfinitePast()};
  };
  // Of what leaves a node, or comes to it.
  struct Queue {
    double bytes_per_second = 0;
    absl::Time free_at = absl::InfinitePast();
    // When these bytes have passed.
    absl::Time Pass(int64_t bytes, absl::Time now);
  };
  struct Port {
    Queue out, in;
  };
  using Pair = std::pair<int, int>;
  static Pair PairOf(int a, int b) { return a < b ? Pair{a, b} : Pair{b, a}; }
  absl::Duration Delay(const LinkOptions& options);
  template <typename Predicate>
  void BreakIf(Predicate matches);

  EventLoop* loop_;
  Random random_;
  std::map<Pair, Link> links_;
  std::map<int, Port> ports_;
  std::set<Pair> partitioned_;
  std::vector<ConnectionPtr> open_;
  int64_t messages_sent_ = 0;
};

}  // namespace longhaul::sim
