// Forward and backward through a model unit by unit, without hooks: backward walks the units in
// reverse. So a unit's weights, activations and gradients are needed only at known times, on which
// sharding and overlapped reduction depend. Called from the thread that computes.
#pragma once

#include <functional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/weight_stream.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"

namespace longhaul {

// The uses for a WeightStream. Training, in each micro-batch: every unit forward, then in reverse
// those that backward gathers (GathersForBackward); the last unit's backward belongs to the use of
// its forward. Evaluation: every unit forward. A copy: every unit, without what it borrows.
std::vector<UnitUse> TrainingUses(const Model& model, int micro_batches = 1);
std::vector<UnitUse> EvaluationUses(const Model& model);
std::vector<UnitUse> CopyUses(const Model& model);

// Called when a unit's gradient is complete on this rank, last unit first.
using UnitGradientReady = std::function<absl::Status(int unit)>;

struct PassOptions {
  // A factor of the loss whose gradient is computed.
  double scale = 1;
  // Keep only the inputs of units, and run forward again in backward.
  bool recompute = false;
  // Receives a span for each unit's forward and backward. May be null.
  Trace* trace = nullptr;
  // Computes the units. Null: autograd does.
  FusedPass* fused = nullptr;
};

// The sums of Model::metrics() over batches, and in evaluations the counts after them.
class MetricSums {
 public:
  // Zeros.
  explicit MetricSums(const Model& model) : on_host_(model.metrics().size()) {}
  static MetricSums OfEvaluation(const Model& model) {
    MetricSums sums(model);
    sums.on_host_.resize(sums.on_host_.size() + static_cast<size_t>(model.counts()));
    return sums;
  }
  // Does not wait for a device. `sums`: float32, as Model::Forward returns them.
  void Add(const at::Tensor& sums);
  void Add(absl::Span<const double> sums);
  void Add(const MetricSums& other);
  // Float64. Does not wait for the device.
  at::Tensor On(at::Device device) const;
  // Waits for the device.
  std::vector<double> Total() const;

 private:
  std::vector<double> on_host_;
  // What is not known on the host, float64. Undefined: zeros.
  at::Tensor on_device_;
};

// Returns the sums over the batch. Adds the gradient of the loss's sum times the scale to
// `gradients`. With a batch of no examples this rank takes part in the gathers, adds nothing, and
// returns zeros. Blocks as `weights` does. Errors: those of `weights` and `ready`. Throws as torch
// does.
absl::StatusOr<MetricSums> ForwardBackward(const Model& model, const StagedBatch& batch,
                                           const PassOptions& options, WeightStream& weights,
                                           FlatGradients& gradients,
                                           const UnitGradientReady& ready);

// The sums of an evaluation, without gradients.
absl::StatusOr<MetricSums> ForwardOnly(const Model& model, const StagedBatch& batch,
                                       WeightStream& weights, FusedPass* fused = nullptr);

}  // namespace longhaul
