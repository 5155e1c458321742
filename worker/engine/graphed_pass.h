// Forward and backward through a model as CUDA graphs. The first pass of a batch of some size is
// recorded, unit by unit; it and all later ones are one launch for each unit and direction, where
// autograd enqueues each kernel by itself. For models whose kernels are so short that enqueueing
// them takes longer than they do.
//
// A graph has fixed addresses. So the weights must always be in the same memory, and gradients must
// not be split (FlatGradients); the batch is copied to memory of the pass. Each size of a batch is
// recorded twice: gradients overwrite those of the step before, or are added. The memory of
// activations stays reserved; all recordings share it.
//
// Called from the thread that computes. Throws as torch does.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/engine/compute_weights.h"
#include "worker/engine/device_graph.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/segmented_pass.h"
#include "worker/model/model.h"

namespace longhaul {

class GraphedPass {
 public:
  // The references outlive the object. `weights` are not split. `await_device` is called before
  // each wait for the device.
  GraphedPass(const Model& model, const ComputeWeights& weights,
              std::unique_ptr<GraphRecorder> recorder, std::function<absl::Status()> await_device);

  // As the function ForwardBackward, with the same options and the same `gradients` in every call.
  // `fused` is null. Waits for the device when it records; otherwise not. Errors: those of `ready`
  // and `await_device`; INTERNAL: the loss of a recorded pass is not that of the pass that was
  // recorded.
  absl::StatusOr<MetricSums> ForwardBackward(const StagedBatch& batch, const PassOptions& options,
                                             FlatGradients& gradients,
                                             const UnitGradientReady& ready);

 private:
  struct Recording {
    // Of every unit forward, then of every unit backward in reverse. Of the last unit one for both.
    std::vector<std::unique_ptr<DeviceGraph>> graphs;
    at::Tensor sums;
  };
  struct OfSize {
    // What the graphs read.
    StagedBatch batch;
    // The gradient of the sums.
    at::Tensor gradient;
    Recording overwriting, adding;
  };

  // Copies the batch to where the graphs read it.
  OfSize& SizeOf(const StagedBatch& batch);
  // Forward, then backward. `run` gets the part of each graph, in order. Null `gradients`: they are
  // dropped. Returns the sums.
  at::Tensor Pass(const OfSize& of, bool recompute, FlatGradients* gradients,
                  absl::FunctionRef<void(const std::function<void()>& part)> run);
  Recording Record(const OfSize& of, bool recompute, FlatGradients& gradients);

  const Model& model_;
  const std::unique_ptr<GraphRecorder> recorder_;
  const std::function<absl::Status()> await_device_;
  // By unit.
  std::vector<std::vector<at::Tensor>> leaves_;
  // By the shapes of the batch's tensors; of one that it lacks: {-1}.
  std::map<std::vector<std::vector<int64_t>>, OfSize> sizes_;
};

}  // namespace longhaul
