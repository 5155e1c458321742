// Where the ranks of a pool are: which of them share a node, and which a pair of devices. A pure
// value, the same on every rank.
//
// Ranks are numbered through, node by node, as the coordinator hands them out (NodePlace of
// longhaul/v1/pool.proto). Levels are nested: a group of one level lies in a group of the next.
//
// What is split over a pool is cut into as many pieces as there are ranks, and each rank owns one.
// Where the nodes are all as large, pieces nest: the ranks of a node together own every part of the
// whole that the ranks of another node own together, so that what a node needs of the others enters
// it once, and each rank passes its share on inside.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// From the narrowest. What is split over a level is whole on each group of that level.
enum class Level {
  kRank,  // Groups of one rank: not split.
  kPair,  // Local ranks 2i and 2i + 1, as the two dies of one accelerator package.
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
  // By node: its ranks. INVALID_ARGUMENT: no node, or one without ranks.
  static absl::StatusOr<Topology> Make(absl::Span<const int> ranks_of_node);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(first_rank_.size()) - 1; }
  int node(int rank) const { return node_of_[rank]; }
  // On its node.
  int local_rank(int rank) const { return rank - first_rank_[node_of_[rank]]; }
  // The narrowest level at which the two ranks are together.
  Level Nearest(int a, int b) const;

  // OK: the pool divides into groups of this level that are all as large. INVALID_ARGUMENT, in
  // words, otherwise.
  absl::Status CheckEven(Level level) const;
  // The ranks that share the level with `rank`, ascending. kPair requires CheckEven.
  std::vector<int> Group(Level level, int rank) const;

  // The pieces that a rank holds of what is split over `level`: all for kRank, one for kPool.
  // Requires CheckEven for kPair and kNode. In a node of X ranks of Y nodes, the rank at place p
  // owns piece p * Y + node; places count the first ranks of all pairs before the second ones.
  PieceRange Pieces(Level level, int rank) const;
  // The one piece that a rank owns.
  int piece(int rank) const { return Pieces(Level::kPool, rank).first; }

  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  std::vector<int> node_of_;     // By rank.
  std::vector<int> first_rank_;  // By node; then the number of ranks.
};

}  // namespace longhaul
