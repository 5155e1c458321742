// Updates parameters from gradients. Parameters are given as subgroups: contiguous pieces with one
// setting each, a whole matrix where an optimizer needs it whole. The optimizer keeps its own state
// for each subgroup, and knows nothing of models, ranks or shards.
//
// An update is Begin, Submit of each subgroup at most once, Finish. Submit may return before the
// subgroup is updated: until it is settled its memory is the optimizer's.
//
// Implementations: AdamW (host, fused, SIMD), TorchAdamW and TorchMuon (worker/engine: any device).
// References in plain lines, for tests: ReferenceAdamW, ReferenceMuon. Used from one thread. Memory
// lies where the implementation works; on a device "settled" means for work that is enqueued later.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace longhaul {

// What an optimizer is told of a subgroup when it is made.
struct SubgroupShape {
  int64_t elements = 0;
  bool decay = false;  // Weight decay applies.
  // Of a matrix that is updated as one, row-major: rows * columns == elements. 0: the elements are
  // updated each on its own.
  int64_t rows = 0, columns = 0;
  bool matrix() const { return rows > 0; }
};

struct UpdateOptions {
  double learning_rate = 0;
  double gradient_scale = 1;  // Gradients are multiplied by it first (clipping).
};

// All spans have the subgroup's number of elements, or are empty where that is allowed.
struct SubgroupUpdate {
  int subgroup = 0;              // By the order in which the optimizer was given them.
  absl::Span<float> parameters;  // Updated in place.
  // One of the two; the second are the bits of bf16 numbers.
  absl::Span<const float> gradients;
  absl::Span<const uint16_t> narrow_gradients;
  // Gets the updated parameters as bits of bf16 numbers, rounded to nearest even. Empty: none.
  absl::Span<uint16_t> shadow;
};

// What may be remembered of each element between two updates.
enum class OptimizerState {
  kMoment,    // m of Adam, the momentum of Muon.
  kVariance,  // v of Adam.
  // What quantizing gradients has lost and is still owed, all ranks together: the engine's
  // (PartitionMap::error_feedback). Optimizers are not asked for it.
  kGradientError,
};
// The optimizers'.
inline constexpr OptimizerState kOptimizerStates[] = {OptimizerState::kMoment,
                                                      OptimizerState::kVariance};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void Begin(const UpdateOptions& options) = 0;
  virtual void Submit(const SubgroupUpdate& update) = 0;
  // Whether a submitted subgroup is updated. Does not block.
  virtual bool Settled(int subgroup) const = 0;
  // Waits until every submitted subgroup is settled. Errors end the training.
  virtual absl::Status Finish() = 0;

  // --- Between two updates: what it remembers, to be saved and put back. Values are given as
  // float32 in host memory, whatever they are kept as: what was read can be written back without a
  // change.

  virtual bool Keeps(OptimizerState state, int subgroup) const = 0;
  // Of elements [first, first + values.size()) of a subgroup that keeps the state.
  virtual void ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const = 0;
  virtual void WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) = 0;
  // How many updates were begun.
  virtual int64_t updates() const = 0;
  virtual void SetUpdates(int64_t updates) = 0;
  // Of what it remembers.
  virtual int64_t state_bytes() const = 0;
};

}  // namespace longhaul
