// A replica of one rank without a model: every inner step adds a constant to every element.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "worker/replica/replica.h"

namespace longhaul {

// Not thread-safe.
class SyntheticReplica : public Replica {
 public:
  struct Options {
    int64_t units = 1, elements = 1;
    // The value of every element before the first step.
    double initial = 0;
    // Each step adds this.
    double inner_delta = 0;
    // See Replica::EvaluationsBeside.
    int evaluations_beside = 0;
  };
  // INVALID_ARGUMENT: see LayOutSynthetic.
  static absl::StatusOr<std::unique_ptr<SyntheticReplica>> Create(const Options& options);

  const ModelLayout& layout() const override { return layout_; }
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  absl::StatusOr<StepStats> Step(int64_t step) override;
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override;
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override;
  absl::Status Publish(absl::Span<const int> units) override { return absl::OkStatus(); }
  // The mean of all elements, as the loss.
  absl::StatusOr<EvalStats> Evaluate() override;
  int EvaluationsBeside() const override { return evaluations_beside_; }
  // Evaluates at once. TakeEvaluation returns the result.
  absl::Status BeginEvaluation() override;
  absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) override;
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override;

 private:
  SyntheticReplica(const Options& options, ModelLayout layout);

  float inner_delta_;
  int evaluations_beside_;
  ModelLayout layout_;
  // By unit.
  std::vector<std::vector<float>> parameters_;
  std::deque<EvalStats> begun_;
};

}  // namespace longhaul
