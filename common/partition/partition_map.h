// Who holds what inside a pool: for each kind of state, over which level it is split and in how many
// bits it crosses. The named modes are presets of this map and nothing else. Pure values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/topology.h"

namespace longhaul {

struct Spread {
  Level level = Level::kRank;
  // Of a matrix's element on its way: 4 or 8 (blocks with a scale each), 16 (bf16), 32. 0: as the
  // model computes. Vectors (norms, biases) always cross exactly.
  int bits = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct PartitionMap {
  // What the model computes with. Where it is split, a unit is gathered before each use, for
  // forward and again for backward, and freed after it.
  Spread weights;
  // A copy of the weights that forward leaves behind, from which backward gathers instead. It rests
  // in its bits.
  std::optional<Spread> secondary;
  // Where they are split, they are reduced after each micro-batch to that level, and at the end of
  // the step over the rest of the pool; else everything at the end of the step.
  Spread gradients;
  // What quantizing gradients loses is added to the next ones.
  bool error_feedback = false;
  // Masters and moments.
  Level optimizer = Level::kRank;

  bool uses_pairs() const;
  // Something crosses in 4 or 8 bits.
  bool quantizes() const;
  // Everything is on every rank, and crosses unquantized.
  bool replicates() const;
  friend bool operator==(const PartitionMap&, const PartitionMap&) = default;
};

// "ddp" (or empty): everything on every rank.
// "zero1", "zero2", "zero3": P_os, P_os+g, P_os+g+p (Rajbhandari et al., arXiv 1910.02054).
// "zeropp": zero3 with qwZ, hpZ, qgZ (Wang et al., arXiv 2306.10209).
// "frontier3": weights over the pair, a secondary copy and gradients over the node, the optimizer
// over the pool (Xu et al., arXiv 2501.04266).
// INVALID_ARGUMENT: no preset has this name.
absl::StatusOr<PartitionMap> PartitionPreset(std::string_view name);
// The names above.
absl::Span<const char* const> PartitionPresets();

struct PartitionProblem {
  std::string field;  // Of the map, as "weights.level".
  std::string what, hint;
};
// What makes no sense, whatever the pool.
std::vector<PartitionProblem> FindProblems(const PartitionMap& map);

// The same map without what means nothing in this pool: splits over groups of one rank, and a
// secondary copy of just what the rank keeps of the weights.
PartitionMap Normalized(const PartitionMap& map, const Topology& topology);

// OK: a pool like this can split its state so. FAILED_PRECONDITION "partition: ...", in words,
// otherwise.
absl::Status CheckTopology(const PartitionMap& map, const Topology& topology);

}  // namespace longhaul
