// Trains a model on one rank of a pool: keeps its flat parameters, runs forward and backward,
// reduces gradients over the pool as the partition map says, clips, and updates. The one owner of
// tensors; its interface is spans and numbers.
//
// Used from one thread. Methods marked collective are called by every rank of the pool in the same
// order, and block until the others come or the communicator's deadline passes. After an error the
// state is undefined: the rank starts over.
//
// Errors: UNAVAILABLE, DEADLINE_EXCEEDED (a peer rank is gone or stands still), RESOURCE_EXHAUSTED
// (memory), INTERNAL (torch; or a gradient that is not finite, before anything was updated).
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/flat_parameters.h"
#include "worker/engine/partition_map.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/reduce_queue.h"
#include "worker/engine/shard_plan.h"
#include "worker/model/model.h"
#include "worker/optim/adamw_options.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

// Sequences of context + 1 tokens each, one after another, in host memory. May hold none.
struct TokenBatch {
  int64_t sequences = 0, context = 0;
  absl::Span<const int64_t> tokens;
};

struct StepResult {
  double loss_sum = 0;       // Over the tokens of the pool's batch.
  double gradient_norm = 0;  // Before clipping.
};

class Engine {
 public:
  struct Options {
    std::unique_ptr<const Model> model;
    PoolLink link;
    PartitionMap partition;
    at::Device device = at::kCPU;         // The model's too.
    at::ScalarType compute = at::kFloat;  // Or kBFloat16, with float32 parameters behind it.
    AdamWOptions adamw;
    double clip_norm = 0;  // At most 0: no clipping.
    uint64_t seed = 0;     // Of the initial parameters.
  };
  // With initial parameters, equal on all ranks. Collective.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Options options);

  const ModelLayout& layout() const { return model_->layout(); }
  PoolExchange& exchange() { return exchange_; }

  // One update from the mean gradient over the pool's batch, of which this rank has `share` and all
  // ranks together `pool_tokens` tokens. Collective.
  absl::StatusOr<StepResult> Step(const TokenBatch& share, int64_t pool_tokens,
                                  double learning_rate);
  // Sum of the loss over the tokens of all ranks' shares. Collective.
  absl::StatusOr<double> LossSum(const TokenBatch& share);

  // Local; see Replica.
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in);
  const float* DeviceParameters(int unit) const;
  // Gives every rank what the owners hold of these units. Collective.
  absl::Status Publish(absl::Span<const int> units);

 private:
  explicit Engine(Options options);

  absl::Status Initialize(uint64_t seed);
  absl::StatusOr<double> ComputeGradients(const TokenBatch& share, int64_t pool_tokens);
  // On the queue's thread: no other collective runs until Wait.
  absl::Status ReduceUnit(int unit);
  double OwnedSquaredNorm() const;
  absl::Status Update(double learning_rate, double gradient_norm);
  Batch ToDevice(const TokenBatch& batch) const;

  std::unique_ptr<const Model> model_;
  at::Device device_;
  double clip_norm_;
  PoolExchange exchange_;
  ShardPlan plan_;
  FlatParameters parameters_;
  FlatGradients gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ReduceQueue>
      reductions_;  // Null when this rank is the pool. Last: it ends first.
};

}  // namespace longhaul
