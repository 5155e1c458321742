// A pool's replica that trains a real model: one rank of it. Joins a family of models (which data,
// which computation), the engine (what to do with them) and the schedule of the learning rate.
// Callers see no tensors.
//
// A step is a function of its number, the parameters, and the inner optimizer's state, which begins
// at zero unless one is put back; so a replica whose parameters were written may go on at any step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/layout/initial_parameters.h"
#include "worker/data/batch.h"
#include "worker/family/open_family.h"
#include "worker/plan/rank_site.h"
#include "worker/plan/training_plan.h"
#include "worker/replica/replica.h"
#include "worker/trainer/evaluation_thread.h"

namespace longhaul {

class BatchSource;
class Engine;

// Not thread-safe. Errors of the methods: see Replica; also RESOURCE_EXHAUSTED (memory).
class TorchReplica : public Replica {
 public:
  struct Options {
    TrainingPlan plan;
    RankSite site;
    // The kind of model.
    OpenFamily family;
    // Null: the plan's seed decides the initial parameters.
    std::shared_ptr<const InitialParameters> initial;
  };

  // Makes a replica that has the initial parameters. Collective, blocks. Errors: those of
  // the family, and
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
  std::string DescribeFeatures() const override;
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
  absl::StatusOr<std::vector<NamedValue>> EvaluateTest() override;
  int64_t EvaluationSteps() const override;
  int EvaluationsBeside() const override { return plan_.evaluation_beside.evaluations; }
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
  // Batch `index` of held-out or of test data.
  using TakeBatch = absl::FunctionRef<absl::StatusOr<ExampleBatch>(int64_t index)>;
  // The sums over all batches, of all ranks, batch by batch.
  absl::StatusOr<std::vector<double>> SumsOver(TakeBatch take);
  EvalStats StatsOf(absl::Span<const double> sums, int64_t weight) const;
  TorchReplica(const Options& options, std::unique_ptr<Family> family,
               std::unique_ptr<BatchSource> batches, int64_t held_out_weight,
               std::unique_ptr<Engine> engine);

  const TrainingPlan plan_;
  const std::vector<int> ranks_of_node_;
  const Patience patience_;
  // Without its model and its maker, which the engine and `batches_` have.
  const std::unique_ptr<Family> family_;
  const std::unique_ptr<BatchSource> batches_;
  // What the loss of all held-out batches is divided by.
  const int64_t held_out_weight_;
  const std::unique_ptr<Engine> engine_;
  // The memory that evaluation beside training takes.
  int64_t evaluation_bytes_ = 0;
  // How many evaluations have begun and were not taken.
  int begun_ = 0;
  // Null: training stops for each evaluation. Uses the members above, so it ends first.
  std::unique_ptr<EvaluationThread> evaluating_;
};

}  // namespace longhaul
