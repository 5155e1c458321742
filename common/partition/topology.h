// Where the ranks of a pool are: which of them share a node, and which a pair of devices. A pure
// value, the same on every rank.
//
// Ranks are numbered through, node by node, as the coordinator gives them out (NodePlace of
// longhaul/v1/pool.proto). Levels are nested: a group of one level lies in a group of the next.
//
// State that is split over a pool is cut into as many pieces as there are ranks, and each rank owns
// one. If all nodes have the same size, pieces nest: what a rank holds of a split over the node
// contains the piece that it owns of the split over the pool. So data that a node needs from other
// nodes enters it once, and its ranks pass their shares on inside the node.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// From the narrowest to the widest. State that is split over a level is whole in each group of that
// level.
enum class Level {
  // Groups of one rank: not split.
  kRank,
  // Local ranks 2i and 2i + 1, for example the two dies of one accelerator package.
  kPair,
  kNode,
  kPool,
};

// "rank", "pair", "node", "pool".
absl::string_view LevelName(Level level);

struct PieceRange {
  int first = 0, count = 0;
  int end() const { return first + count; }
  friend bool operator==(const PieceRange&, const PieceRange&) = default;
};

class Topology {
 public:
  // `ranks_of_node` has the ranks of each node. INVALID_ARGUMENT: no node, or one without ranks.
  static absl::StatusOr<Topology> Make(absl::Span<const int> ranks_of_node);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(first_rank_.size()) - 1; }
  int node(int rank) const { return node_of_[rank]; }
  // The rank's number on its node.
  int local_rank(int rank) const { return rank - first_rank_[node_of_[rank]]; }
  // The narrowest level at which the two ranks are in one group.
  Level Nearest(int a, int b) const;

  // OK if all groups of this level in the pool have the same size. Otherwise INVALID_ARGUMENT, with
  // the reason.
  absl::Status CheckEven(Level level) const;
  // The ranks of the group of `rank` at the level, ascending. kPair requires CheckEven.
  std::vector<int> Group(Level level, int rank) const;

  // The pieces that a rank holds of state that is split over `level`: all for kRank, one for kPool.
  // Requires CheckEven for kPair and kNode. In a node of X ranks, of Y nodes, the rank at place p
  // owns piece p * Y + node. Places count the first ranks of all pairs before the second ones.
  PieceRange Pieces(Level level, int rank) const;
  // The piece that a rank owns.
  int piece(int rank) const { return Pieces(Level::kPool, rank).first; }

  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  // By rank.
  std::vector<int> node_of_;
  // By node. The last entry is the number of ranks.
  std::vector<int> first_rank_;
};

}  // namespace longhaul
