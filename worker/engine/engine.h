// Trains a model on one rank of a pool. It keeps this rank's part of the parameters, runs forward
// and backward, gathers weights and reduces gradients over the pool as the partition map says,
// clips, and updates. It owns all tensors; its interface has only spans and numbers.
//
// Called from one thread. Methods marked collective are called by every rank of the pool in the
// same order, and block until the other ranks come or the communicator's deadline passes. After an
// error the state is undefined, and the rank must start again.
//
// With local steps of 0/1 Adam the ranks hold different parameters between two synchronisations.
// Then methods that read or write parameters or state, or evaluate, return FAILED_PRECONDITION:
// call Settle first.
//
// Errors: UNAVAILABLE, DEADLINE_EXCEEDED (a peer rank is gone or makes no progress),
// RESOURCE_EXHAUSTED (memory), INTERNAL (torch; or kSkipsInARowMax gradients in a row that were not
// finite).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/layout/initial_parameters.h"
#include "worker/engine/compute_weights.h"
#include "worker/engine/device_graph.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/gradient_reduction.h"
#include "worker/engine/graphed_pass.h"
#include "worker/engine/momentum_exchange.h"
#include "worker/engine/offload_device.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/product_times.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/stream_queue.h"
#include "worker/engine/weight_snapshot.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"
#include "worker/offload/interleaved_adamw.h"
#include "worker/optim/optimizer.h"
#include "worker/plan/rank_site.h"
#include "worker/plan/training_plan.h"

namespace longhaul {

// Gives micro-batch `micro` of `of` of this rank's share of a batch. The memory that it refers to
// stays valid until the step ends.
using StageMicroBatch = absl::FunctionRef<absl::StatusOr<StagedBatch>(int micro, int of)>;

struct StepResult {
  // Over what the pool's batch counts.
  double loss_sum = 0;
  // L2 norm before clipping. When 1-bit Adam compresses, no rank knows the mean gradient. Then it
  // is the root mean square of the norms of the ranks' own gradients, which is at least the norm of
  // the mean.
  double gradient_norm = 0;
  // The gradient was not finite, and no rank updated anything. The error feedback of gradients
  // became zero.
  bool skipped = false;
  // ||x - decoded||^2 / ||x||^2 of the weights and gradients that were quantized in this step,
  // estimated over all ranks. (1-bit Adam's momentum: in the previous step.) 0: none were.
  double weights_nmse = 0, gradients_nmse = 0;
  // By this rank, since the previous step.
  ReceivedBytes received;
};

// State of this rank that is kept between two steps, in bytes, without scratch and activations.
struct StateBytes {
  int64_t weights = 0, secondary = 0, gradients = 0;
  // Masters and moments.
  int64_t optimizer = 0;
  int64_t error_feedback = 0;
  // The part of all this that is in host memory because of offloading.
  int64_t host = 0;
};

// The counters of an optimizer, without its state of elements.
struct OptimizerPhase {
  int64_t updates = 0;
  // 1-bit Adam: the updates after which the variance was frozen (0: it is not frozen), and the last
  // check of VarianceWatch.
  int64_t frozen_at = 0;
  VarianceLook last_look;
  // The newest steps, all of which were skipped.
  int skips_in_a_row = 0;
};

// The memory that evaluation beside training takes on a rank, in bytes: each copy of the weights,
// and the activations. With autograd the activations are not known, and 0.
struct EvaluationMemory {
  int64_t snapshot = 0, activations = 0;
};
struct EvaluatedWeights {
  WeightSnapshot snapshot;
  // False: a weight that is not finite was quantized, so a loss computed from them has no meaning.
  bool finite = true;
};

class Engine {
 public:
  // A step whose gradient is not finite is skipped; this many in a row end the training.
  static constexpr int kSkipsInARowMax = 10;

  struct Options {
    TrainingPlan plan;
    RankSite site;
    std::unique_ptr<const Model> model;
    // That of the model.
    at::Device device = at::kCPU;
    // The initial parameters. Only Create reads them. Null: the plan's seed decides them.
    std::shared_ptr<const InitialParameters> initial;
    // Forward and backward are recorded (GraphedPass). Null: they are not.
    std::unique_ptr<GraphRecorder> graphs;
    // Must outlive the engine. Null: the engine makes one.
    StreamQueue* queue = nullptr;
    // Kernels that code 4, 6 and 8 bits: see TileCoder. Null: those of the device.
    const SegmentKernels* kernels = nullptr;
  };
  // Makes an engine with initial parameters, which are equal on all ranks. INVALID_ARGUMENT: the
  // optimizer has nothing to update in this model. FAILED_PRECONDITION: the pool cannot be
  // partitioned in this way (CheckTopology), or a node has too little memory for offloading.
  // UNIMPLEMENTED: the optimizer does not work on this device, with this partition, or offloaded;
  // the model has no fused pass there; or forward and backward cannot be recorded. Others: those of
  // Trace::Create, OpenOffloadDevice and LoadCudaSegmentKernels, and of reading the initial
  // parameters. Collective.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Options options);
  ~Engine();

  const Model& model() const { return *model_; }
  const ModelLayout& layout() const { return model_->layout(); }
  at::Device device() const { return device_; }
  const PoolExchange& exchange() const { return *exchange_; }
  // Says which elements this rank owns.
  const ShardPlan& plan() const { return plan_; }
  StateBytes state_bytes() const;
  // With blocks AUTO on a CPU: what decided which path computes. Zeros: nothing was measured.
  const ProductTimes& product_times() const { return product_times_; }
  // The schedule of the interleaved update. Null: nothing is offloaded.
  const UpdateSchedule* schedule() const {
    return interleaved_ == nullptr ? nullptr : &interleaved_->schedule();
  }

  // Updates the parameters once, from the gradient of the pool's loss sum divided by its weight; if
  // that is not finite, it skips the update. `stage` gives this rank's share, which is called for
  // each micro-batch in its turn. `pool_weight`: what all ranks together count (targets, labelled
  // nodes), however it is spread over ranks and micro-batches; 0 counts as 1. Collective.
  absl::StatusOr<StepResult> Step(StageMicroBatch stage, double pool_weight, double learning_rate);
  // Synchronises ranks that took local steps, so that all hold the same parameters. Otherwise does
  // nothing. Returns what this rank received for it. Collective.
  absl::StatusOr<ReceivedBytes> Settle();
  // Whether all ranks hold the same parameters. All ranks give the same answer.
  bool settled() const;
  // The sums of the model's metrics over the shares of all ranks, then its counts. Collective.
  absl::StatusOr<std::vector<double>> Evaluate(StagedBatch share);

  // --- Evaluation of a copy of the weights, beside training.

  // Allocates the memory that evaluation takes. Call once before, with a share as large as any.
  // Local.
  absl::StatusOr<EvaluationMemory> PrepareEvaluationBeside(const StagedBatch& share);
  // Copies all current weights, whole, to this rank. Collective.
  absl::StatusOr<EvaluatedWeights> CopyWeights();
  // As Evaluate, but only of this rank's share. Called by another thread than the engine's, one
  // call at a time. Local.
  absl::StatusOr<std::vector<double>> EvaluateBeside(const EvaluatedWeights& weights,
                                                     StagedBatch share) const;
  // values[i] becomes the sum over all ranks, with the same bits on every rank. Collective.
  absl::Status Sum(absl::Span<double> values);

  // See Replica. Collective.
  absl::StatusOr<std::vector<std::vector<int64_t>>> GatherNumbers(absl::Span<const int64_t> values);

  // The master parameters that this rank owns; see Replica. Local.
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in);
  const float* DeviceParameters(int unit, int64_t offset) const;
  // Sends the owners' parameters of these units to every rank that uses them. Collective.
  absl::Status Publish(absl::Span<const int> units);

  // The optimizer's state of elements that this rank owns; zeros where it does not keep that state.
  // Local. The parameters, these states and the phase are the whole state of training, for any
  // partition and number of ranks. kGradientError can be read after CollectErrorFeedback until the
  // next step; otherwise FAILED_PRECONDITION.
  absl::Status ReadState(OptimizerState state, int unit, int64_t offset,
                         absl::Span<float> out) const;
  // Ignores elements whose state the optimizer does not keep.
  absl::Status WriteState(OptimizerState state, int unit, int64_t offset,
                          absl::Span<const float> in);
  // The ranges of a unit that this rank owns and whose state is kept, ascending. Local.
  std::vector<ElementRange> KeptRanges(OptimizerState state, int unit) const;
  int64_t updates() const { return optimizer_->updates(); }
  OptimizerPhase phase() const;
  // Call after the writes of all ranks. Sends the owners' state to every rank that updates an
  // element, and sets the phase. The error feedback of gradients becomes what was written as
  // kGradientError, or zero; that of 1-bit Adam becomes zero. Collective.
  absl::Status PublishState(const OptimizerPhase& phase);
  // Sends the error feedback of gradients to the owners of the elements, for ReadState. Changes
  // nothing in training. Collective.
  absl::Status CollectErrorFeedback();
  // The error feedback of 1-bit Adam, once the variance is frozen. kWorker: of every element of a
  // unit, different on each rank; it can only be restored on the same rank of as many ranks.
  // kServer: of the elements that this rank owns; it goes with the elements, to any number of
  // ranks. The view may be read and written between two steps (after PublishState), and is valid
  // until the next step. Empty: there is no error feedback.
  absl::Span<float> FeedbackOf(Feedback end, int unit);

 private:
  // `options` without their model.
  Engine(const Options& options, std::unique_ptr<const Model> model,
         std::unique_ptr<PoolExchange> exchange, std::unique_ptr<Trace> trace,
         OffloadDevice offload_device);

  absl::Status MakeOptimizer(const TrainingPlan& plan);
  absl::Status Initialize(const InitialParameters& initial);
  absl::StatusOr<MetricSums> ComputeGradients(StageMicroBatch stage, double scale);
  absl::StatusOr<MetricSums> ComputeMicroBatch(const StagedBatch& batch, double scale, bool last,
                                               WeightStream& weights);
  // Submits the reduction of a unit's complete gradient.
  absl::Status SubmitReduction(int unit, bool last);
  // Runs on the queue.
  absl::Status ReduceUnit(int unit, bool last);
  absl::Status FreeReduced(size_t pending_max);
  absl::Status PublishState(OptimizerState state, int unit);
  // Visits the parts of the optimizer's subgroups inside `range` of a unit.
  template <typename Visit>
  void ForState(OptimizerState state, int unit, const ElementRange& range, Visit&& visit) const;
  // Whether 1-bit Adam's ranks exchange momentum instead of gradients.
  bool ExchangesMomentum() const { return momentum_ != nullptr && momentum_->compresses(); }
  // This rank's part of the squared norm of the gradient: a float64 scalar on the device.
  at::Tensor SquaredNormPart();
  // Sums loss and norm of a step over the ranks. The only place where a step waits for the device.
  absl::StatusOr<StepResult> SumStep(const MetricSums& sums);
  // Waits for the device with a deadline, before torch waits for it without one. Call it when all
  // collectives are done: what lasts long is then this device's fault.
  absl::Status AwaitOwnWork(absl::string_view what) const;
  absl::Status Update(double learning_rate, double gradient_norm);
  // By unit.
  std::vector<StreamQueue::Ticket> AverageMomentum(double scale);
  StreamQueue::Ticket SubmitRefresh(int unit);
  absl::Status SynchronizeSteps();
  // FAILED_PRECONDITION: ranks took local steps, and have not synchronised since.
  absl::Status CheckSettled() const;
  // Bytes received since the last call.
  ReceivedBytes TakeReceived();
  SubgroupUpdate UpdateOf(int subgroup) const;
  // Only for offloaded state; otherwise they do nothing.
  void FlushGradients(int unit);
  absl::Status BeginWrite(int unit, const ElementRange& range);
  // Runs something collective on the queue, and waits for it. After an error it may still run, so
  // it owns what it uses, but for the engine.
  absl::Status RunQueued(std::string name, std::function<absl::Status()> work);
  // Adds what the model's Forward needs of it, if that computes.
  void Prepare(StagedBatch& batch) const;

  const std::unique_ptr<const Model> model_;
  const at::Device device_;
  const double clip_norm_;
  const Patience patience_;
  const int accumulation_, gathers_ahead_;
  const bool recompute_;
  // May be null.
  const std::unique_ptr<Trace> trace_;
  const std::unique_ptr<PoolExchange> exchange_;
  // Empty: nothing is offloaded.
  const OffloadDevice offload_device_;
  const ShardPlan plan_;
  ComputeWeights weights_;
  FlatGradients gradients_;
  GradientReduction reduction_;
  const at::ScalarType compute_;
  ProductTimes product_times_;
  // Null: autograd.
  const std::unique_ptr<FusedPass> fused_;
  // Null: nothing is recorded.
  std::unique_ptr<GraphedPass> graphed_;
  // For evaluation beside training.
  std::unique_ptr<FusedPass> fused_beside_;
  const std::shared_ptr<ThreadTeam> team_;
  std::unique_ptr<Optimizer> optimizer_;
  // optimizer_, if it is one. Null: nothing is offloaded.
  InterleavedAdamW* interleaved_ = nullptr;
  // Only for 1-bit Adam.
  std::unique_ptr<MomentumExchange> momentum_;
  struct Pending {
    int unit;
    // The last micro-batch of the step.
    bool last;
    StreamQueue::Ticket ticket;
  };
  // In the order of submission.
  std::vector<Pending> reducing_;
  // What earlier steps have reported.
  ReceivedBytes reported_;
  // Equal on all ranks.
  int skips_in_a_row_ = 0;
  std::unique_ptr<StreamQueue> own_queue_;
  // Its works use the members above, so it is destroyed first.
  StreamQueue* const queue_;
};

}  // namespace longhaul
