// Updates parameters from gradients. Parameters are given as subgroups: contiguous pieces with one
// setting each, a whole matrix where an optimizer needs it whole. The optimizer keeps its own state
// for each subgroup, and knows nothing of models, ranks or shards.
//
// An update is Begin, Submit of each subgroup at most once, Finish. Submit may return before the
// subgroup is updated. Until it is settled, the optimizer alone may use the memory of the update.
//
// Implementations: AdamW (host, fused, SIMD), OneBitAdam (host), InterleavedAdamW (worker/offload:
// host and device), TorchAdamW and TorchMuon (worker/engine: any device). Called from one thread.
// Spans lie in the memory where the implementation computes. On a device "settled" means: for work
// that is enqueued later. Only Finish waits for a device.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace longhaul {

struct SubgroupShape {
  int64_t elements = 0;
  // Weight decay applies to it.
  bool decay = false;
  // The shape of a row-major matrix that is updated as a whole: rows * columns == elements. 0: each
  // element is updated on its own.
  int64_t rows = 0, columns = 0;
  bool matrix() const { return rows > 0; }
};

struct UpdateOptions {
  double learning_rate = 0;
  // The optimizer multiplies gradients by it first (clipping).
  double gradient_scale = 1;
};

// All spans have the subgroup's number of elements, or are empty where that is allowed.
struct SubgroupUpdate {
  // Index in the list of subgroups that the optimizer was made with.
  int subgroup = 0;
  // Updated in place.
  absl::Span<float> parameters;
  // One of the two is given: float32 numbers, or the bits of bf16 numbers.
  absl::Span<const float> gradients;
  absl::Span<const uint16_t> narrow_gradients;
  // Receives the updated parameters as the bits of bf16 numbers, rounded to nearest even. Empty:
  // nobody needs them.
  absl::Span<uint16_t> shadow;

  // Whether the spans fit a subgroup of so many elements.
  bool Fits(int64_t elements) const {
    const auto size = static_cast<size_t>(elements);
    return parameters.size() == size && gradients.size() + narrow_gradients.size() == size &&
           (shadow.empty() || shadow.size() == size);
  }
};

// State of each element between two updates.
enum class OptimizerState {
  // m of Adam, the momentum of Muon.
  kMoment,
  // v of Adam.
  kVariance,
  // The error feedback of quantized gradients, summed over the ranks. The engine keeps it
  // (PartitionMap::error_feedback); optimizers are not asked for it.
  kGradientError,
};
// The states that an optimizer may keep.
inline constexpr OptimizerState kOptimizerStates[] = {OptimizerState::kMoment,
                                                      OptimizerState::kVariance};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void Begin(const UpdateOptions& options) = 0;
  virtual void Submit(const SubgroupUpdate& update) = 0;
  // Whether a submitted subgroup is updated. Does not block.
  virtual bool Settled(int subgroup) const = 0;
  // Waits until every submitted subgroup is settled. Errors: those of the device. Training cannot
  // go on after one.
  virtual absl::Status Finish() = 0;

  // --- The state, to be saved and restored between two updates.

  // Values are float32 in host memory, whatever precision they are kept in. Writing back what was
  // read changes nothing.
  virtual bool Keeps(OptimizerState state, int subgroup) const = 0;
  // The state of elements [first, first + values.size()) of a subgroup that keeps it. Errors: those
  // of the device.
  virtual absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                                 absl::Span<float> values) const = 0;
  virtual absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                                  absl::Span<const float> values) = 0;
  // The number of updates that were begun.
  virtual int64_t updates() const = 0;
  virtual void SetUpdates(int64_t updates) = 0;
  // The memory that the state takes.
  virtual int64_t state_bytes() const = 0;
};

}  // namespace longhaul
