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
#include "common/base/patience.h"
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

class BatchStager;
class Communicator;
class Engine;

enum class DeviceKind { kCpu, kCuda };
// Default: float32 on the CPU, bf16 on CUDA.
enum class ComputePrecision { kDefault, kFloat32, kBfloat16 };

// Whether a block's passes are written by hand (fused) or come from autograd. Auto: fused on the
// CPU.
enum class BlockKind { kAuto, kFused, kAutograd };

// See OffloadSpec of job.proto.
struct OffloadSettings {
  bool optimizer = false, parameters = false;
  // Negative: the performance model chooses it.
  int stride = -1;
  double device_share = 0;
  // Above 0 if `optimizer` is set.
  int64_t subgroup_elements = 0;
  // The file that keeps measured rates. Empty: they are not kept.
  std::string profile_path;
};

// See EvaluationSpec.beside_training of job.proto.
struct EvaluationBeside {
  // How many may be in progress, each with a copy of the weights. 0: training stops for each.
  int evaluations = 0;
  // The memory of this node that they may take. 0: what the system says is free.
  int64_t host_bytes = 0;
};

struct WeightedSource {
  SourceOptions source;
  double weight = 1;
};

// A source, as this rank's machine has it.
struct DataFacts {
  std::string path;
  int64_t tokens = 0;
  // SampleOf.
  uint64_t sample = 0;
};

// Not thread-safe. Errors of the methods: see Replica; also RESOURCE_EXHAUSTED (memory).
class TorchReplica : public Replica {
 public:
  struct Options {
    TransformerShape shape;
    // The pool's sequences in a step.
    int64_t batch = 0;
    // For the order of the data, and for the initial parameters if `initial` is null.
    uint64_t seed = 0;
    std::shared_ptr<const InitialParameters> initial;
    // The pool's ordinal in the job.
    int64_t pool = 0;
    LearningRate learning_rate;
    OptimizerOptions optimizer;
    // 0 or less: no clipping.
    double clip_norm = 1;
    PartitionMap partition;
    // How many units' weights are gathered before their use, if weights are split. See
    // WeightStream.
    int gathers_ahead = 1;
    // Micro-batches in a step.
    int accumulation = 1;
    // Whether backward computes activations again instead of keeping them.
    bool recompute = false;
    // See Blocks of job.proto.
    BlockKind blocks = BlockKind::kAuto;
    // For kCuda only. See cuda_graphs of job.proto.
    bool cuda_graphs = false;
    OffloadSettings offload;

    // Empty: the text at `data_path`, one token for each byte.
    std::vector<WeightedSource> sources;
    std::string data_path;
    DataOrder order = DataOrder::kDraws;
    TokenWork token_work;
    // Attention keeps to documents. Every source must then tell where they begin.
    bool separate_documents = false;
    double eval_fraction = 0.05;
    // Each has `batch` sequences.
    int64_t eval_batches = 8;
    // For kCpu only.
    EvaluationBeside evaluation_beside;

    DeviceKind device = DeviceKind::kCpu;
    // For kCuda: the number of the device among those that this process sees.
    int device_index = 0;
    ComputePrecision precision = ComputePrecision::kDefault;
    // Of torch, in the whole process; and of the optimizer if `team` is null.
    int threads = 1;
    std::shared_ptr<ThreadTeam> team = nullptr;

    // Null: the pool has one rank. Otherwise it must outlive the replica.
    Communicator* communicator = nullptr;
    // Whether it works on device memory (nccl) or on host memory.
    bool communicator_on_device = false;
    // How many ranks each node of the pool has. Empty: there is one node.
    std::vector<int> ranks_of_node;
    // The file for this rank's timeline. Empty: none is written.
    std::string trace_path;
    absl::Duration collective_timeout = absl::Minutes(5);
    // For a wait for this rank's own device, data or threads.
    Patience patience = absl::Minutes(5);
  };

  struct OpenedData {
    std::unique_ptr<BatchSource> batches;
    // By source.
    std::vector<DataFacts> facts;
    // On how many targets of the held-out batches the loss is.
    int64_t held_out_weight = 0;
    // The loss is not on all targets.
    bool masked = false;
  };

  // Makes a replica that has the initial parameters. Collective, blocks. Errors: those of
  // OpenSource, and
  //   INVALID_ARGUMENT     an impossible shape
  //   UNIMPLEMENTED        fused blocks on a device that lacks them
  //   FAILED_PRECONDITION  "no CUDA device"; the partition does not fit this pool; its nodes have
  //                        too little memory for what is offloaded or evaluated beside training;
  //                        they have different data
  //   UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL
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
  // Uses the same evenly spaced windows of the held-out data every time, for any number of ranks.
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
  absl::Status CompareData();
  absl::Status PrepareEvaluationBeside();
  EvalStats StatsOf(absl::Span<const double> sums) const;
  TorchReplica(const Options& options, OpenedData data, std::unique_ptr<Engine> engine);

  Options options_;
  std::unique_ptr<BatchSource> batches_;
  // By source.
  const std::vector<DataFacts> data_;
  // See OpenedData.
  const int64_t held_out_weight_;
  const bool masked_;
  std::unique_ptr<Engine> engine_;
  // For the thread that trains, and for evaluation alongside.
  const std::unique_ptr<BatchStager> stager_, stager_beside_;
  // The memory that evaluation beside training takes.
  int64_t evaluation_bytes_ = 0;
  // How many evaluations have begun and were not taken.
  int begun_ = 0;
  // Null: training stops for each evaluation. Uses the members above, so it ends first.
  std::unique_ptr<EvaluationThread> evaluating_;
};

}  // namespace longhaul
