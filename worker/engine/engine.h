// Trains a model on one rank of a pool: keeps its part of the parameters, runs forward and backward,
// gathers weights and reduces gradients over the pool as the partition map says, clips, and updates.
// The one owner of tensors; its interface is spans and numbers.
//
// Used from one thread. Methods marked collective are called by every rank of the pool in the same
// order, and block until the others come or the communicator's deadline passes. After an error the
// state is undefined: the rank starts over.
//
// Errors: UNAVAILABLE, DEADLINE_EXCEEDED (a peer rank is gone or stands still), RESOURCE_EXHAUSTED
// (memory), INTERNAL (torch; or a gradient that is not finite, before anything was updated).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/partition/partition_map.h"
#include "worker/engine/collective_queue.h"
#include "worker/engine/compute_weights.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/gradient_reduction.h"
#include "worker/engine/pool_exchange.h"
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
  // ||x - decoded||^2 / ||x||^2 of what was quantized in this step, estimated over all ranks. 0:
  // nothing was.
  double weights_nmse = 0, gradients_nmse = 0;
  ReceivedBytes received;  // By this rank, since the step before.
};

// State of this rank that stays between two steps, in bytes; scratch and activations apart.
struct StateBytes {
  int64_t weights = 0, secondary = 0, gradients = 0;
  int64_t optimizer = 0;  // Masters and moments.
  int64_t error_feedback = 0;
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
    double clip_norm = 0;    // At most 0: no clipping.
    uint64_t seed = 0;       // Of the initial parameters.
    int accumulation = 1;    // Micro-batches of a step.
    bool recompute = false;  // Of activations; see PassOptions.
    int gathers_ahead = 1;   // See WeightStream.
    std::string trace_path;  // Of a timeline of this rank (Trace). Empty: none.
    // Null: one of the engine's own. Else it must outlive the engine.
    CollectiveQueue* queue = nullptr;
  };
  // With initial parameters, equal on all ranks. FAILED_PRECONDITION: this pool cannot be split so (CheckTopology).
  // UNIMPLEMENTED: the device has no kernels for these bits. Those of
  // Trace::Create. Collective.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Options options);
  ~Engine();

  const ModelLayout& layout() const { return model_->layout(); }
  const PoolExchange& exchange() const { return *exchange_; }
  // Which elements this rank owns.
  const ShardPlan& plan() const { return plan_; }
  StateBytes state_bytes() const;

  // One update from the mean gradient over the pool's batch, of which this rank has `share` and all
  // ranks together `pool_tokens` tokens. Collective.
  absl::StatusOr<StepResult> Step(const TokenBatch& share, int64_t pool_tokens,
                                  double learning_rate);
  // Sum of the loss over the tokens of all ranks' shares. Collective.
  absl::StatusOr<double> LossSum(const TokenBatch& share);
  // See Replica. Collective.
  absl::StatusOr<std::vector<std::vector<int64_t>>> GatherNumbers(absl::Span<const int64_t> values);

  // Master parameters that this rank owns. Local; see Replica.
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in);
  const float* DeviceParameters(int unit, int64_t offset) const;
  // Gives every rank what the owners hold of these units. Collective.
  absl::Status Publish(absl::Span<const int> units);

  // The optimizer's moments of elements that this rank owns. Local. Together with Read and Write and
  // the number of updates this is the whole state, whatever the partition and the number of ranks;
  // error feedback alone begins anew.
  absl::Status ReadMoments(Moment moment, int unit, int64_t offset, absl::Span<float> out) const;
  absl::Status WriteMoments(Moment moment, int unit, int64_t offset, absl::Span<const float> in);
  int64_t updates() const { return optimizer_->updates(); }
  // After writes of all ranks: gives every rank that updates an element what its owner holds, and
  // sets the number of updates. Collective.
  absl::Status PublishMoments(int64_t updates);

 private:
  Engine(Options options, std::unique_ptr<PoolExchange> exchange, std::unique_ptr<Trace> trace);

  absl::Status Initialize();
  absl::StatusOr<double> ComputeGradients(const TokenBatch& share, int64_t pool_tokens);
  absl::StatusOr<double> ComputeMicroBatch(const TokenBatch& share, double scale, bool last);
  // Sends a unit's complete gradient on its way.
  absl::Status SubmitReduction(int unit, bool last);
  // On the queue.
  absl::Status ReduceUnit(int unit, bool last);
  absl::Status FreeReduced(size_t pending_max);
  // Visits the parts of the optimizer's runs inside `range` of a unit.
  template <typename Visit>
  void ForMoments(Moment moment, int unit, const ElementRange& range, Visit&& visit) const;
  double OwnedSquaredNorm() const;
  absl::Status Update(double learning_rate, double gradient_norm);
  // Runs something collective on the queue, and waits for it.
  absl::Status RunQueued(std::string name, std::function<absl::Status()> work);
  std::optional<Batch> ToDevice(const TokenBatch& batch) const;

  const std::unique_ptr<const Model> model_;
  const at::Device device_;
  const double clip_norm_;
  const uint64_t seed_;
  const int accumulation_, gathers_ahead_;
  const bool recompute_;
  const std::unique_ptr<Trace> trace_;  // May be null.
  const std::unique_ptr<PoolExchange> exchange_;
  const ShardPlan plan_;
  ComputeWeights weights_;
  FlatGradients gradients_;
  GradientReduction reduction_;
  const std::unique_ptr<Optimizer> optimizer_;
  struct Pending {
    int unit;
    CollectiveQueue::Ticket ticket;
  };
  std::vector<Pending> reducing_;  // In the order of their submission.
  ReceivedBytes reported_;         // With earlier steps.
  std::unique_ptr<CollectiveQueue> own_queue_;
  // Its works use the members above: it ends first.
  CollectiveQueue* const queue_;
};

}  // namespace longhaul
