// A pool's replica that trains a real model: one rank of it. Joins the data (which tokens), the
// engine (what to do with them) and the schedule of the learning rate. Callers see no tensors.
//
// A step is a function of its number, the parameters, and the inner optimizer's state, which begins
// at zero unless one is put back; so a replica whose parameters were written may go on at any step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "common/layout/initial_parameters.h"
#include "common/partition/partition_map.h"
#include "worker/data/batch.h"
#include "worker/data/example_plan.h"
#include "worker/data/source.h"
#include "worker/optim/learning_rate.h"
#include "worker/optim/optimizer_options.h"
#include "worker/replica/replica.h"
#include "worker/trainer/evaluation_thread.h"

namespace longhaul {

class Communicator;
class Engine;

enum class DeviceKind { kCpu, kCuda };
enum class ComputePrecision {
  kDefault,
  kFloat32,
  kBfloat16
};  // Default: float32 on CPU, bf16 on CUDA.

// How blocks are computed: by hand or by autograd. Auto: by hand on CPU.
enum class BlockKind { kAuto, kFused, kAutograd };

// See OffloadSpec of job.proto. `profile_path`: where measured rates are kept; empty: nowhere.
struct OffloadSettings {
  bool optimizer = false, parameters = false;
  int stride = -1;  // Negative: chosen.
  double device_share = 0;
  int64_t subgroup_elements = 0;  // With `optimizer`: above 0.
  std::string profile_path;
};

// See EvaluationSpec.beside_training of job.proto.
struct EvaluationBeside {
  int evaluations = 0;     // At a time, each with a copy of the weights. 0: in training's place.
  int64_t host_bytes = 0;  // That are left for it on this node. 0: what the system says.
};

struct WeightedSource {
  SourceOptions source;
  double weight = 1;
};

// Not thread-safe. Errors of the methods: see Replica; also RESOURCE_EXHAUSTED (memory).
class TorchReplica : public Replica {
 public:
  struct Options {
    TransformerShape shape;
    int64_t batch = 0;  // Sequences of the pool in a step.
    uint64_t seed = 0;  // Of the order of the data, and of the initial parameters,
    std::shared_ptr<const InitialParameters> initial;  // unless they come from here.
    int64_t pool = 0;                                  // The pool's ordinal in the job.
    LearningRate learning_rate;
    OptimizerOptions optimizer;
    double clip_norm = 1;  // At most 0: no clipping.
    PartitionMap partition;
    int gathers_ahead = 1;   // Of units' weights, where they are split: see WeightStream.
    int accumulation = 1;    // Micro-batches of a step.
    bool recompute = false;  // Activations, for backward.
    BlockKind blocks = BlockKind::kAuto;
    OffloadSettings offload;

    std::vector<WeightedSource> sources;  // Empty: text, one token for each byte,
    std::string data_path;                // of this path.
    DataOrder order = DataOrder::kDraws;
    TokenWork token_work;
    bool separate_documents = false;  // Attention keeps to documents, which every source must tell.
    double eval_fraction = 0.05;
    int64_t eval_batches = 8;            // Of `batch` sequences each.
    EvaluationBeside evaluation_beside;  // kCpu.

    DeviceKind device = DeviceKind::kCpu;
    int device_index = 0;  // kCuda: of the devices that this process sees.
    ComputePrecision precision = ComputePrecision::kDefault;
    int threads = 1;  // Of torch in the whole process, and of the optimizer,
    std::shared_ptr<ThreadTeam> team = nullptr;  // unless it is to use these.

    Communicator* communicator =
        nullptr;  // Null: this rank is the pool. Else it must outlive the replica.
    bool communicator_on_device = false;  // It works on device memory (nccl), else on host memory.
    std::vector<int> ranks_of_node;       // Of the pool. Empty: one node.
    std::string trace_path;               // Of a timeline of this rank. Empty: none.
    absl::Duration collective_timeout = absl::Minutes(5);
  };

  // With the initial parameters ready. Collective. NOT_FOUND: the data is not there.
  // INVALID_ARGUMENT: an impossible shape, bad data (as OpenSource, whose other errors it has, too).
  // UNIMPLEMENTED: fused blocks on a device that lacks them. FAILED_PRECONDITION: this pool cannot be
  // split so, or its nodes have no memory for what is offloaded or evaluated beside training.
  // FAILED_PRECONDITION "no CUDA device". UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED,
  // INTERNAL.
  static absl::StatusOr<std::unique_ptr<TorchReplica>> Create(const Options& options);
  ~TorchReplica() override;

  const ModelLayout& layout() const override;
  int rank() const override;
  int ranks() const override;
  std::string Describe() const override;
  BlockRange OwnedBlocks(int unit) const override;
  absl::StatusOr<StepStats> Step(int64_t step) override;
  absl::StatusOr<InPoolTraffic> Settle() override;
  bool settled() const override;
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override;
  const float* DeviceParameters(int unit, int64_t offset) const override;
  absl::Status Publish(absl::Span<const int> units) override;
  // The same evenly spaced windows of the held-out data every time, whatever the number of ranks.
  absl::StatusOr<EvalStats> Evaluate() override;
  int EvaluationsBeside() const override { return options_.evaluation_beside.evaluations; }
  absl::Status BeginEvaluation() override;
  absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) override;
  std::vector<InnerStateSlot> InnerStateSlots(absl::Span<const NamedValue> phase) const override;
  std::vector<NamedValue> InnerStatePhase() const override;
  absl::Status TakeInnerState(InnerState& state, bool alone) override;
  absl::Status PutInnerState(const InnerState& state) override;
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override;

 private:
  absl::Status PrepareEvaluationBeside();
  EvalStats StatsOf(absl::Span<const double> loss_sums) const;
  TorchReplica(const Options& options, std::unique_ptr<BatchSource> batches,
               std::unique_ptr<Engine> engine);

  Options options_;
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<Engine> engine_;
  int64_t evaluation_bytes_ = 0;  // Of evaluation beside training.
  int begun_ = 0;                 // Evaluations, and not taken.
  // Null: they take training's place. Uses the members above: it ends first.
  std::unique_ptr<EvaluationThread> evaluating_;
};

}  // namespace longhaul
