#include "worker/replica/synthetic_replica.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<SyntheticReplica>> SyntheticReplica::Create(const Options& options) {
  LH_ASSIGN_OR_RETURN(ModelLayout layout, LayOutSynthetic(options.units, options.elements));
  return std::unique_ptr<SyntheticReplica>(new SyntheticReplica(options, std::move(layout)));
}

SyntheticReplica::SyntheticReplica(const Options& options, ModelLayout layout)
    : inner_delta_(static_cast<float>(options.inner_delta)),
      evaluations_beside_(options.evaluations_beside),
      layout_(std::move(layout)),
      parameters_(options.units,
                  std::vector<float>(options.elements, static_cast<float>(options.initial))) {}

absl::StatusOr<StepStats> SyntheticReplica::Step(int64_t step) {
  for (auto& unit : parameters_) {
    for (float& value : unit) value += inner_delta_;
  }
  return StepStats{.tokens = 1};
}

absl::Status SyntheticReplica::Read(int unit, int64_t offset, absl::Span<float> out) {
  LH_CHECK(offset + static_cast<int64_t>(out.size()) <= layout_.units[unit].elements,
           "read past the unit");
  std::copy_n(parameters_[unit].begin() + offset, out.size(), out.begin());
  return absl::OkStatus();
}

absl::Status SyntheticReplica::Write(int unit, int64_t offset, absl::Span<const float> in) {
  LH_CHECK(offset + static_cast<int64_t>(in.size()) <= layout_.units[unit].elements,
           "write past the unit");
  std::copy(in.begin(), in.end(), parameters_[unit].begin() + offset);
  return absl::OkStatus();
}

absl::StatusOr<EvalStats> SyntheticReplica::Evaluate() {
  double sum = 0;
  for (const auto& unit : parameters_) {
    for (float value : unit) sum += value;
  }
  return EvalStats{.loss = sum / static_cast<double>(layout_.elements()), .tokens = 1};
}

absl::Status SyntheticReplica::BeginEvaluation() {
  LH_CHECK(static_cast<int>(begun_.size()) < evaluations_beside_, "too many evaluations");
  LH_ASSIGN_OR_RETURN(begun_.emplace_back(), Evaluate());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<EvalStats>> SyntheticReplica::TakeEvaluation(bool) {
  LH_CHECK(!begun_.empty(), "no evaluation was begun");
  const EvalStats stats = begun_.front();
  begun_.pop_front();
  return stats;
}

absl::StatusOr<std::vector<std::vector<int64_t>>> SyntheticReplica::AllGather(
    absl::Span<const int64_t> values) {
  return std::vector<std::vector<int64_t>>{{values.begin(), values.end()}};
}

}  // namespace longhaul
