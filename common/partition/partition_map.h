// Which rank holds what inside a pool. For each kind of state the map says over which level it is
// split, and in how many bits it is sent. The named modes are only presets of this map. Pure
// values.
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
  // Bits of a matrix's element when it is sent: 4, 6 or 8 (blocks with a scale each), 16 (bf16),
  // 32. 0: the type in which the model computes. Vectors (norms, biases) are always sent exactly.
  int bits = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct PartitionMap {
  // The weights with which the model computes. If they are split, a unit is gathered for forward,
  // and again for backward if that needs it (GathersForBackward), and freed after each use.
  Spread weights;
  // A copy of the weights that forward keeps, in the given bits, of units that backward gathers.
  // Backward gathers from it instead.
  std::optional<Spread> secondary;
  // If gradients are split, they are reduced after each micro-batch to that level, and at the end
  // of the step over the rest of the pool. Otherwise everything is reduced at the end of the step.
  Spread gradients;
  // The error of quantizing gradients is added to the next gradients.
  bool error_feedback = false;
  // What is added becomes beta times itself plus (1 - beta) times the newest error, in [0, 1); and
  // zero every so many steps (0: never). LoCo (arXiv 2407.04480).
  double error_beta = 0;
  int error_reset_steps = 0;
  // Masters and moments.
  Level optimizer = Level::kRank;

  bool uses_pairs() const;
  // Something is sent in 4, 6 or 8 bits.
  bool quantizes() const;
  // Every rank has everything, and nothing is quantized.
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
  // A field of the map, for example "weights.level".
  std::string field;
  std::string what, hint;
};
// Faults of the map that do not depend on the pool.
std::vector<PartitionProblem> FindProblems(const PartitionMap& map);

// The map without the parts that have no effect in this pool: splits over groups of one rank, and a
// secondary copy of exactly the weights that the rank keeps anyway.
PartitionMap Normalized(const PartitionMap& map, const Topology& topology);

// OK if such a pool can split its state in this way. Otherwise FAILED_PRECONDITION "partition:
// ...", with the reason.
absl::Status CheckTopology(const PartitionMap& map, const Topology& topology);

}  // namespace longhaul
