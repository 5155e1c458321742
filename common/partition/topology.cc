#include "common/partition/topology.h"

#include <numeric>

#include "absl/strings/str_format.h"
#include "common/base/counted.h"

namespace longhaul {
namespace {

std::vector<int> Range(int first, int end) {
  std::vector<int> range(end - first);
  std::iota(range.begin(), range.end(), first);
  return range;
}

}  // namespace

absl::string_view LevelName(Level level) {
  switch (level) {
    case Level::kRank:
      return "rank";
    case Level::kPair:
      return "pair";
    case Level::kNode:
      return "node";
    case Level::kPool:
      return "pool";
  }
  return "";
}

absl::StatusOr<Topology> Topology::Make(absl::Span<const int> ranks_of_node) {
  if (ranks_of_node.empty()) return absl::InvalidArgumentError("a pool without nodes");
  Topology topology;
  for (const int ranks : ranks_of_node) {
    if (ranks < 1) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node %d has %d ranks", topology.first_rank_.size(), ranks));
    }
    topology.node_of_.insert(topology.node_of_.end(), ranks,
                             static_cast<int>(topology.first_rank_.size()));
    topology.first_rank_.push_back(topology.ranks() - ranks);
  }
  topology.first_rank_.push_back(topology.ranks());
  return topology;
}

Level Topology::Nearest(int a, int b) const {
  if (a == b) return Level::kRank;
  if (node_of_[a] != node_of_[b]) return Level::kPool;
  return local_rank(a) / 2 == local_rank(b) / 2 ? Level::kPair : Level::kNode;
}

absl::Status Topology::CheckEven(Level level) const {
  if (level == Level::kPool || level == Level::kRank) return absl::OkStatus();
  for (int n = 0; n < nodes(); ++n) {
    const int ranks = first_rank_[n + 1] - first_rank_[n];
    if (level == Level::kPair && ranks % 2 != 0) {
      return absl::InvalidArgumentError(
          ranks == 1 ? absl::StrFormat("node %d has 1 rank, which is not a pair", n)
                     : absl::StrFormat("node %d has %d ranks, which are no pairs", n, ranks));
    }
    if (ranks != first_rank_[1]) {
      return absl::InvalidArgumentError(
          absl::StrFormat("nodes differ in size: node 0 has %s, node %d has %d",
                          Counted(first_rank_[1], "rank"), n, ranks));
    }
  }
  return absl::OkStatus();
}

std::vector<int> Topology::Group(Level level, int rank) const {
  const int node = node_of_[rank];
  switch (level) {
    case Level::kRank:
      return {rank};
    case Level::kPair: {
      const int first = rank - local_rank(rank) % 2;
      return {first, first + 1};
    }
    case Level::kNode:
      return Range(first_rank_[node], first_rank_[node + 1]);
    case Level::kPool:
      return Range(0, ranks());
  }
  return {};
}

PieceRange Topology::Pieces(Level level, int rank) const {
  if (level == Level::kRank) return {0, ranks()};
  if (!CheckEven(Level::kNode).ok()) return {rank, 1};
  const int in_node = first_rank_[1], local = local_rank(rank);
  const bool pairs = in_node % 2 == 0;
  const int die = local % 2;
  if (level == Level::kPair) return {die * (ranks() / 2), ranks() / 2};
  const int place = pairs ? die * (in_node / 2) + local / 2 : local;
  if (level == Level::kNode) return {place * nodes(), nodes()};
  return {place * nodes() + node_of_[rank], 1};
}

}  // namespace longhaul
