// A replica that reports its steps and evaluations to the rank's monitor. Threads, blocking and
// errors: those of the replica inside.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "worker/rank/rank_monitor.h"
#include "worker/replica/replica.h"

namespace longhaul {

class WatchedReplica : public Replica {
 public:
  // Both outlive the object. `eval_batches`: the batches of one evaluation.
  WatchedReplica(Replica* inner, RankMonitor* monitor, int64_t eval_batches)
      : inner_(inner), monitor_(monitor), eval_batches_(eval_batches) {}

  const ModelLayout& layout() const override { return inner_->layout(); }
  int rank() const override { return inner_->rank(); }
  std::string Describe() const override { return inner_->Describe(); }
  BlockRange OwnedBlocks(int unit) const override { return inner_->OwnedBlocks(unit); }
  int ranks() const override { return inner_->ranks(); }
  absl::StatusOr<StepStats> Step(int64_t step) override {
    const absl::Time begin = SteadyTime();
    monitor_->BeginStep();
    auto stats = inner_->Step(step);
    monitor_->EndStep(step, SteadyTime() - begin);
    return stats;
  }
  absl::StatusOr<InPoolTraffic> Settle() override { return inner_->Settle(); }
  bool settled() const override { return inner_->settled(); }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override {
    return inner_->Read(unit, offset, out);
  }
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override {
    return inner_->Write(unit, offset, in);
  }
  const float* DeviceParameters(int unit, int64_t offset) const override {
    return inner_->DeviceParameters(unit, offset);
  }
  absl::Status Publish(absl::Span<const int> units) override { return inner_->Publish(units); }
  absl::StatusOr<EvalStats> Evaluate() override {
    monitor_->BeginEvaluation(eval_batches_);
    auto stats = inner_->Evaluate();
    monitor_->EndEvaluation();
    return stats;
  }
  int EvaluationsBeside() const override { return inner_->EvaluationsBeside(); }
  absl::Status BeginEvaluation() override { return inner_->BeginEvaluation(); }
  absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) override {
    if (!wait) return inner_->TakeEvaluation(false);
    monitor_->BeginEvaluation(eval_batches_);
    auto stats = inner_->TakeEvaluation(true);
    monitor_->EndEvaluation();
    return stats;
  }
  std::vector<InnerStateSlot> InnerStateSlots(absl::Span<const NamedValue> phase) const override {
    return inner_->InnerStateSlots(phase);
  }
  std::vector<NamedValue> InnerStatePhase() const override { return inner_->InnerStatePhase(); }
  absl::Status TakeInnerState(InnerState& state, bool alone) override {
    return inner_->TakeInnerState(state, alone);
  }
  absl::Status PutInnerState(const InnerState& state) override {
    return inner_->PutInnerState(state);
  }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    return inner_->AllGather(values);
  }

 private:
  Replica* const inner_;
  RankMonitor* const monitor_;
  const int64_t eval_batches_;
};

}  // namespace longhaul
