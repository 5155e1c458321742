// Where the ranks of a pool are: which of them share a node, and which a pair of devices. A pure
// value, the same on every rank.
//
// Ranks are numbered through, node by node, as the coordinator hands them out (NodePlace of
// longhaul/v1/pool.proto). Levels are nested: a group of one level lies in a group of the next.
// What a level's group holds together goes on to the rest of the pool "across" its groups, between
// the ranks at the same place in each: a byte that all ranks of a node need enters the node once.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// From the narrowest.
enum class Level {
  kPair,  // Local ranks 2i and 2i + 1, as the two dies of one accelerator package.
  kNode,
  kPool,
};

// "pair", "node", "pool".
absl::string_view LevelName(Level level);

class Topology {
 public:
  // By node: its ranks. INVALID_ARGUMENT: no node, or one without ranks.
  static absl::StatusOr<Topology> Make(absl::Span<const int> ranks_of_node);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(first_rank_.size()) - 1; }
  int node(int rank) const { return node_of_[rank]; }
  // On its node.
  int local_rank(int rank) const { return rank - first_rank_[node_of_[rank]]; }

  // OK: the pool divides into groups of this level that are all as large, so that there are ranks
  // at the same place in each. INVALID_ARGUMENT, in words, otherwise.
  absl::Status CheckEven(Level level) const;
  // The ranks that share the level with `rank`, ascending. Requires CheckEven for kPair.
  std::vector<int> Group(Level level, int rank) const;
  // The ranks at the place of `rank` in every group of the level, ascending. Requires CheckEven.
  std::vector<int> Across(Level level, int rank) const;

  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  std::vector<int> node_of_;     // By rank.
  std::vector<int> first_rank_;  // By node; then the number of ranks.
};

}  // namespace longhaul
