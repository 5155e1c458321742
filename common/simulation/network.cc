#include "common/simulation/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace longhaul::sim {

class Connection {
 public:
  Connection(int a, int b, std::function<void()> broken_a, std::function<void()> broken_b)
      : nodes{a, b}, broken{std::move(broken_a), std::move(broken_b)} {}

  int SideOf(int node) const {
    LH_CHECK(node == nodes[0] || node == nodes[1], "not an end of this connection");
    return node == nodes[0] ? 0 : 1;
  }

  const int nodes[2];
  std::function<void()> broken[2];
  // By sending side.
  absl::Time newest_arrival[2] = {absl::InfinitePast(), absl::InfinitePast()};
  bool open = true;
};

void Network::SetLink(int a, int b, const LinkOptions& options) {
  links_[PairOf(a, b)].options = options;
}

void Network::SetPort(int node, double out, double in) {
  ports_[node].out.bytes_per_second = out;
  ports_[node].in.bytes_per_second = in;
}

absl::Time Network::Queue::Pass(int64_t bytes, absl::Time now) {
  if (bytes_per_second <= 0 || bytes == 0) return now;
  free_at = std::max(now, free_at) + absl::Seconds(bytes / bytes_per_second);
  return free_at;
}

ConnectionPtr Network::Connect(int a, int b, std::function<void()> broken_a,
                               std::function<void()> broken_b) {
  if (partitioned_.contains(PairOf(a, b))) return nullptr;
  return open_.emplace_back(
      std::make_shared<Connection>(a, b, std::move(broken_a), std::move(broken_b)));
}

void Network::Send(const ConnectionPtr& connection, int from, int64_t bytes,
                   std::function<void()> deliver) {
  if (!connection->open) return;
  ++messages_sent_;
  const int side = connection->SideOf(from);
  Link& link = links_[PairOf(connection->nodes[0], connection->nodes[1])];
  if (link.options.break_probability > 0 && random_.Uniform() < link.options.break_probability)
    return Break(connection);
  absl::Time sent = loop_->now();
  const int to = connection->nodes[1 - side];
  const bool back = from > to;
  const double rate = back && link.options.back_bytes_per_second > 0
                          ? link.options.back_bytes_per_second
                          : link.options.bytes_per_second;
  if (rate > 0 && bytes > 0) {
    absl::Time& free_at = link.free_at[back ? 1 : 0];
    sent = std::max(sent, free_at) + absl::Seconds(bytes / rate);
    free_at = sent;
  }
  if (const auto port = ports_.find(from); port != ports_.end())
    sent = std::max(sent, port->second.out.Pass(bytes, loop_->now()));
  if (const auto port = ports_.find(to); port != ports_.end())
    sent = std::max(sent, port->second.in.Pass(bytes, loop_->now()));
  absl::Time& newest = connection->newest_arrival[side];
  newest = std::max(newest, sent + Delay(link.options));
  loop_->At(newest, [connection, deliver = std::move(deliver)] {
    if (connection->open) deliver();
  });
}

void Network::Break(const ConnectionPtr& connection) {
  if (!connection->open) return;
  connection->open = false;
  std::erase(open_, connection);
  for (auto& broken : connection->broken) {
    if (broken) loop_->After(absl::ZeroDuration(), std::exchange(broken, nullptr));
  }
}

void Network::BreakAll(int node) {
  BreakIf([node](const Connection& c) { return c.nodes[0] == node || c.nodes[1] == node; });
}

void Network::Partition(int a, int b) {
  partitioned_.insert(PairOf(a, b));
  BreakIf([pair = PairOf(a, b)](const Connection& c) {
    return PairOf(c.nodes[0], c.nodes[1]) == pair;
  });
}

void Network::Heal(int a, int b) { partitioned_.erase(PairOf(a, b)); }

template <typename Predicate>
void Network::BreakIf(Predicate matches) {
  const std::vector<ConnectionPtr> open = open_;
  for (const ConnectionPtr& connection : open) {
    if (matches(*connection)) Break(connection);
  }
}

absl::Duration Network::Delay(const LinkOptions& options) {
  const absl::Duration mean = options.delay_mean - options.delay_min;
  if (mean <= absl::ZeroDuration()) return options.delay_min;
  return options.delay_min + mean * std::min(20.0, -std::log1p(-random_.Uniform()));
}

}  // namespace longhaul::sim
