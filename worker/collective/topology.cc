#include "worker/collective/topology.h"

#include <numeric>

#include "absl/strings/str_format.h"

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

absl::Status Topology::CheckEven(Level level) const {
  if (level == Level::kPool) return absl::OkStatus();
  for (int n = 0; n < nodes(); ++n) {
    const int ranks = first_rank_[n + 1] - first_rank_[n];
    if (level == Level::kPair && ranks % 2 != 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("node %d has %d ranks, which are no pairs", n, ranks));
    }
    if (level == Level::kNode && ranks != first_rank_[1]) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "nodes differ in size: node 0 has %d ranks, node %d has %d", first_rank_[1], n, ranks));
    }
  }
  return absl::OkStatus();
}

std::vector<int> Topology::Group(Level level, int rank) const {
  const int node = node_of_[rank];
  switch (level) {
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

std::vector<int> Topology::Across(Level level, int rank) const {
  const std::vector<int> group = Group(level, rank);
  const int place = rank - group.front(), size = static_cast<int>(group.size());
  std::vector<int> across;
  // Groups follow each other, and are all as large.
  for (int first = 0; first < ranks(); first += size) across.push_back(first + place);
  return across;
}

}  // namespace longhaul
