// Trains a model on one rank of a pool: keeps its part of the parameters, runs forward and backward,
// gathers weights and reduces gradients over the pool as the partition map says, clips, and updates.
// The one owner of tensors; its interface is spans and numbers.
//
// Used from one thread. Methods marked collective are called by every rank of the pool in the same
// order, and block until the others come or the communicator's deadline passes. After an error the
// state is undefined: the rank starts over.
//
// With local steps of 0/1 Adam the ranks hold different parameters between two synchronisations. Then
// whatever reads or writes parameters or state, or evaluates, is FAILED_PRECONDITION: Settle comes first.
//
// Errors: UNAVAILABLE, DEADLINE_EXCEEDED (a peer rank is gone or stands still), RESOURCE_EXHAUSTED
// (memory), INTERNAL (torch; or kSkipsInARowMax gradients in a row that were not finite).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_team.h"
#include "common/layout/initial_parameters.h"
#include "common/partition/partition_map.h"
#include "worker/engine/collective_queue.h"
#include "worker/engine/compute_weights.h"
#include "worker/engine/flat_gradients.h"
#include "worker/engine/gradient_reduction.h"
#include "worker/engine/momentum_exchange.h"
#include "worker/engine/offload_device.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/weight_snapshot.h"
#include "worker/model/fused_pass.h"
#include "worker/model/model.h"
#include "worker/offload/interleaved_adamw.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/optimizer_options.h"

namespace longhaul {

// Sequences of context + 1 tokens each, one after another, in host memory. May hold none.
struct TokenBatch {
  int64_t sequences = 0, context = 0;
  absl::Span<const int64_t> tokens;
  // Of the `context` tokens of each sequence that are read, as Batch has them. Empty: a sequence is one
  // document.
  absl::Span<const int64_t> document_starts;
};

struct StepResult {
  double loss_sum = 0;  // Over the tokens of the pool's batch.
  // Before clipping. Where 1-bit Adam compresses nobody knows the mean gradient: the root mean square
  // of the norms of the ranks' own, which is at least its norm.
  double gradient_norm = 0;
  // It was not finite: nothing was updated, on no rank.
  bool skipped = false;
  // ||x - decoded||^2 / ||x||^2 of what was quantized in this step (of 1-bit Adam's momentum: in the
  // step before), estimated over all ranks. 0: nothing was.
  double weights_nmse = 0, gradients_nmse = 0;
  ReceivedBytes received;  // By this rank, since the step before.
};

// State of this rank that stays between two steps, in bytes; scratch and activations apart.
struct StateBytes {
  int64_t weights = 0, secondary = 0, gradients = 0;
  int64_t optimizer = 0;  // Masters and moments.
  int64_t error_feedback = 0;
  int64_t host = 0;  // Of all this, in host memory by offloading.
};

// How far an optimizer is, beside what it remembers of elements.
struct OptimizerPhase {
  int64_t updates = 0;
  // 1-bit Adam: after how many of them the variance was frozen (0: it is not), and what VarianceWatch
  // saw last.
  int64_t frozen_at = 0;
  VarianceLook last_look;
  int skips_in_a_row = 0;  // Of the newest steps.
};

// What evaluation beside training takes of a rank, in bytes: each copy of the weights, and what is
// computed. Of blocks by autograd the latter is not known, and 0.
struct EvaluationMemory {
  int64_t snapshot = 0, activations = 0;
};
struct EvaluatedWeights {
  WeightSnapshot snapshot;
  bool finite = true;  // Else they have no quantized form: what is computed with them is no loss.
};

// How units are computed. kAuto: by hand (FusedPass) where the model has that on the device.
enum class Blocks { kAuto, kFused, kAutograd };

class Engine {
 public:
  // A step whose gradient is not finite is skipped; this many in a row end the training.
  static constexpr int kSkipsInARowMax = 10;

  struct Options {
    std::unique_ptr<const Model> model;
    PoolLink link;
    PartitionMap partition;
    at::Device device = at::kCPU;         // The model's too.
    at::ScalarType compute = at::kFloat;  // Or kBFloat16, with float32 parameters behind it.
    OptimizerOptions optimizer;
    double clip_norm = 0;  // At most 0: no clipping.
    uint64_t seed = 0;     // Of the initial parameters,
    // unless they come from here. Read in Create alone.
    std::shared_ptr<const InitialParameters> initial;
    // Of the optimizer; torch has its own setting.
    int threads = 1;
    std::shared_ptr<ThreadTeam> team = nullptr;  // Instead of threads of its own.
    int accumulation = 1;                        // Micro-batches of a step.
    bool recompute = false;                      // Of activations; see PassOptions.
    Blocks blocks = Blocks::kAuto;
    int gathers_ahead = 1;  // See WeightStream.
    OffloadOptions offload;
    std::string trace_path;  // Of a timeline of this rank (Trace). Empty: none.
    // Null: one of the engine's own. Else it must outlive the engine.
    CollectiveQueue* queue = nullptr;
    // Of 4, 6 and 8 bits: see TileCoder. Null: those of the device.
    const SegmentKernels* kernels = nullptr;
  };
  // With initial parameters, equal on all ranks. INVALID_ARGUMENT: the optimizer has nothing to do in
  // this model. FAILED_PRECONDITION: this pool cannot be split so (CheckTopology), or a node has no
  // memory for what is offloaded. UNIMPLEMENTED: the optimizer cannot work on this device, with this
  // partition or offloaded, or the model has no fused pass there. Those of Trace::Create,
  // OpenOffloadDevice and LoadCudaSegmentKernels, and of the
  // initial parameters. Collective.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(Options options);
  ~Engine();

  const ModelLayout& layout() const { return model_->layout(); }
  const PoolExchange& exchange() const { return *exchange_; }
  // Which elements this rank owns.
  const ShardPlan& plan() const { return plan_; }
  StateBytes state_bytes() const;
  // How the update is interleaved. Null: nothing is offloaded.
  const UpdateSchedule* schedule() const {
    return interleaved_ == nullptr ? nullptr : &interleaved_->schedule();
  }

  // One update from the mean gradient over the pool's batch, of which this rank has `share` and all
  // ranks together `pool_tokens` tokens; none if it is not finite. Collective.
  absl::StatusOr<StepResult> Step(const TokenBatch& share, int64_t pool_tokens,
                                  double learning_rate);
  // Synchronises ranks that took local steps: after it they hold the same. Else it does nothing. What
  // this rank received for it. Collective.
  absl::StatusOr<ReceivedBytes> Settle();
  // Whether the ranks hold the same. All ranks give the same answer.
  bool settled() const;
  // Sum of the loss over the tokens of all ranks' shares. Collective.
  absl::StatusOr<double> LossSum(const TokenBatch& share);

  // --- Evaluation beside training: of a copy of the weights, while steps go on.

  // Before the first, with the largest share of a batch: takes what computing takes. Local.
  absl::StatusOr<EvaluationMemory> PrepareEvaluationBeside(int64_t sequences, int64_t context);
  // The weights as they are now, whole on this rank. Collective.
  absl::StatusOr<EvaluatedWeights> CopyWeights();
  // As LossSum, but of this rank's share alone, by another thread than the engine's: one at a time.
  // Local.
  absl::StatusOr<double> LossSumBeside(const EvaluatedWeights& weights,
                                       const TokenBatch& share) const;
  // values[i] of all ranks together, the same bits on every rank. Collective.
  absl::Status Sum(absl::Span<double> values);

  // See Replica. Collective.
  absl::StatusOr<std::vector<std::vector<int64_t>>> GatherNumbers(absl::Span<const int64_t> values);

  // Master parameters that this rank owns. Local; see Replica.
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in);
  const float* DeviceParameters(int unit, int64_t offset) const;
  // Gives every rank what the owners hold of these units. Collective.
  absl::Status Publish(absl::Span<const int> units);

  // What the optimizer remembers of elements that this rank owns; zeros where it does not keep that
  // state. Local. Together with Read and Write and the phase this is the whole state, whatever the
  // partition and the number of ranks. kGradientError is there after CollectErrorFeedback until the
  // next step, else FAILED_PRECONDITION.
  absl::Status ReadState(OptimizerState state, int unit, int64_t offset,
                         absl::Span<float> out) const;
  // What is written to where the state is not kept is dropped.
  absl::Status WriteState(OptimizerState state, int unit, int64_t offset,
                          absl::Span<const float> in);
  // Of what this rank owns of a unit, the ranges of which the state is kept, ascending. Local.
  std::vector<ElementRange> KeptRanges(OptimizerState state, int unit) const;
  int64_t updates() const { return optimizer_->updates(); }
  OptimizerPhase phase() const;
  // After writes of all ranks: gives every rank that updates an element what its owner holds, and
  // sets the phase. What gradients owe is what was written as kGradientError, or nothing; 1-bit
  // Adam's feedback begins anew. Collective.
  absl::Status PublishState(const OptimizerPhase& phase);
  // Brings what gradients owe to the owners of the elements, for ReadState. Collective.
  absl::Status CollectErrorFeedback();
  // What 1-bit Adam owes, from the freeze on: at kWorker of every element of a unit, a value of this
  // rank alone; at kServer of what it owns. Means something on the same rank of as many ranks. A view
  // to be read or written between two steps (after PublishState), valid until the next one. Empty:
  // nothing is owed.
  absl::Span<float> FeedbackOf(Feedback end, int unit);

 private:
  // The options without their model.
  Engine(const Options& options, std::unique_ptr<const Model> model,
         std::unique_ptr<PoolExchange> exchange, std::unique_ptr<Trace> trace,
         OffloadDevice offload_device);

  absl::Status MakeOptimizer(const OptimizerOptions& options, const OffloadOptions& offload);
  absl::Status Initialize(const InitialParameters& initial);
  absl::StatusOr<PassLoss> ComputeGradients(const TokenBatch& share, int64_t pool_tokens);
  absl::StatusOr<PassLoss> ComputeMicroBatch(const TokenBatch& share, double scale, bool last);
  // Sends a unit's complete gradient on its way.
  absl::Status SubmitReduction(int unit, bool last);
  // On the queue.
  absl::Status ReduceUnit(int unit, bool last);
  absl::Status FreeReduced(size_t pending_max);
  absl::Status PublishState(OptimizerState state, int unit);
  // Visits the parts of the optimizer's subgroups inside `range` of a unit.
  template <typename Visit>
  void ForState(OptimizerState state, int unit, const ElementRange& range, Visit&& visit) const;
  // Whether 1-bit Adam's ranks exchange momentum instead of gradients.
  bool ExchangesMomentum() const { return momentum_ != nullptr && momentum_->compresses(); }
  // This rank's part of the sum that makes the gradient's norm: a scalar of float64 on the device.
  at::Tensor SquaredNormPart();
  // Of a step, over the ranks. Waits for the device: the only time in a step.
  absl::StatusOr<StepResult> SumStep(const PassLoss& loss);
  absl::Status Update(double learning_rate, double gradient_norm);
  // By unit.
  std::vector<CollectiveQueue::Ticket> AverageMomentum(double scale);
  CollectiveQueue::Ticket SubmitRefresh(int unit);
  absl::Status SynchronizeSteps();
  // FAILED_PRECONDITION: ranks took local steps since they last held the same.
  absl::Status CheckSettled() const;
  // Bytes received since the last call.
  ReceivedBytes TakeReceived();
  SubgroupUpdate UpdateOf(int subgroup) const;
  // Of offloaded state; else they do nothing.
  void FlushGradients(int unit);
  absl::Status BeginWrite(int unit, const ElementRange& range);
  // Runs something collective on the queue, and waits for it.
  absl::Status RunQueued(std::string name, std::function<absl::Status()> work);
  std::optional<Batch> ToDevice(const TokenBatch& batch) const;

  const std::unique_ptr<const Model> model_;
  const at::Device device_;
  const double clip_norm_;
  const int accumulation_, gathers_ahead_;
  const bool recompute_;
  const std::unique_ptr<Trace> trace_;  // May be null.
  const std::unique_ptr<PoolExchange> exchange_;
  const OffloadDevice offload_device_;  // Empty: nothing is offloaded.
  const ShardPlan plan_;
  ComputeWeights weights_;
  FlatGradients gradients_;
  GradientReduction reduction_;
  const at::ScalarType compute_;
  const std::unique_ptr<FusedPass> fused_;   // Null: autograd.
  std::unique_ptr<FusedPass> fused_beside_;  // Of evaluation beside training.
  const std::shared_ptr<ThreadTeam> team_;
  std::unique_ptr<Optimizer> optimizer_;
  InterleavedAdamW* interleaved_ = nullptr;     // The same. Null: nothing is offloaded.
  std::unique_ptr<MomentumExchange> momentum_;  // Of 1-bit Adam alone.
  struct Pending {
    int unit;
    bool last;  // Of the step.
    CollectiveQueue::Ticket ticket;
  };
  std::vector<Pending> reducing_;  // In the order of their submission.
  ReceivedBytes reported_;         // With earlier steps.
  int skips_in_a_row_ = 0;         // The same on every rank.
  std::unique_ptr<CollectiveQueue> own_queue_;
  // Its works use the members above: it ends first.
  CollectiveQueue* const queue_;
};

}  // namespace longhaul
