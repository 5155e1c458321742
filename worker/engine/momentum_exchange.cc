#include "worker/engine/momentum_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/status_macros.h"
#include "worker/engine/tensor_span.h"

namespace longhaul {

MomentumExchange::MomentumExchange(const ModelLayout& layout, const ShardPlan& plan,
                                   PoolExchange& exchange, OneBitAdam& optimizer)
    : layout_(layout),
      plan_(plan),
      exchange_(exchange),
      optimizer_(optimizer),
      watch_(optimizer.options()) {
  if (exchange.ranks() == 1) optimizer.StepTogether();
}

absl::Status MomentumExchange::Decide() {
  const int64_t updates = optimizer_.updates(), freeze_step = optimizer_.options().freeze_step;
  if (begun_) DecideOnVariance();
  if (begun_ || updates == 0) return absl::OkStatus();
  if (freeze_step > 0) {
    if (updates < freeze_step) return absl::OkStatus();
  } else {
    if (!watch_.Due(updates)) return absl::OkStatus();
    double norm = VarianceNorm();
    LH_RETURN_IF_ERROR(exchange_.Sum(absl::MakeSpan(&norm, 1)));
    if (!watch_.Look(updates, norm)) return absl::OkStatus();
  }
  optimizer_.SetFrozenAt(updates);
  Begin();
  DecideOnVariance();
  return absl::OkStatus();
}

// Such an update may give an element its first variance. From then on the element is compressed,
// too.
void MomentumExchange::DecideOnVariance() {
  const bool changed = std::exchange(changes_variance_, optimizer_.ChangesVarianceNext());
  if (!changed || changes_variance_) return;
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
    units_[unit].SetAbsent(AbsentOf(unit));
}

// Variances are not negative, so their sum is the 1-norm.
double MomentumExchange::VarianceNorm() {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(plan_.subgroups().size()); ++i) {
    const UnitSubgroup& subgroup = plan_.subgroups()[i];
    const ElementRange& owned = plan_.owned(subgroup.unit);
    const int64_t first = std::max(owned.first, subgroup.range.first);
    const int64_t end = std::min(owned.end(), subgroup.range.end());
    const absl::Span<const float> variance = optimizer_.variance(i);
    for (int64_t e = first; e < end; ++e) sum += variance[e - subgroup.range.first];
  }
  return sum;
}

void MomentumExchange::Begin() {
  begun_ = true;
  units_.clear();
  if (exchange_.ranks() == 1) return;
  for (int unit = 0; unit < static_cast<int>(layout_.units.size()); ++unit) {
    std::vector<int64_t> tensors;
    for (const TensorLayout& tensor : layout_.units[unit].tensors)
      tensors.push_back(tensor.elements);
    std::vector<Part> chunks;
    for (int rank = 0; rank < exchange_.ranks(); ++rank) {
      const ElementRange owned = plan_.Held(unit, Level::kPool, rank);
      chunks.push_back({owned.count == 0 ? 0 : owned.first, owned.count});
    }
    const OneBitAdamOptions& options = optimizer_.options();
    units_.emplace_back(CompressedAllReduce::Options{
        .rank = exchange_.rank(),
        .segments = CompressedAllReduce::Segments(tensors, options.scale_block),
        .chunks = std::move(chunks),
        .scale = options.scale,
        .error_feedback = options.error_feedback});
    units_.back().SetAbsent(AbsentOf(unit));
  }
}

// Sets the bit of each element whose variance is zero.
std::vector<uint8_t> MomentumExchange::AbsentOf(int unit) {
  std::vector<uint8_t> absent((layout_.units[unit].elements + 7) / 8);
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const UnitSubgroup& subgroup = plan_.subgroups()[i];
    const absl::Span<const float> variance = optimizer_.variance(i);
    for (int64_t e = 0; e < subgroup.range.count; ++e) {
      const int64_t element = subgroup.range.first + e;
      if (variance[e] == 0) absent[element / 8] |= static_cast<uint8_t>(1 << (element % 8));
    }
  }
  return absent;
}

absl::Status MomentumExchange::Average(int unit, const at::Tensor& gradient, double scale) {
  const absl::Span<float> values = SpanOf<float>(gradient);
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const UnitSubgroup& subgroup = plan_.subgroups()[i];
    // Scales so that the mean over the ranks is the pool's value.
    optimizer_.MakeMomentum(i, scale * exchange_.ranks(),
                            values.subspan(subgroup.range.first, subgroup.range.count));
  }
  return Mean(unit, gradient);
}

// Before the first synchronisation the error feedback is that of momentum, which is no step. It is
// dropped.
absl::Status MomentumExchange::AverageSteps(int unit, const at::Tensor& steps) {
  const absl::Span<float> values = SpanOf<float>(steps);
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const UnitSubgroup& subgroup = plan_.subgroups()[i];
    absl::c_copy(optimizer_.accumulated(i), values.begin() + subgroup.range.first);
  }
  if (optimizer_.FirstSynchronization()) {
    for (const Feedback end : {Feedback::kWorker, Feedback::kServer}) {
      const absl::Span<float> owed = feedback(end, unit);
      std::fill(owed.begin(), owed.end(), 0.0f);
    }
  }
  return Mean(unit, steps);
}

absl::Status MomentumExchange::Mean(int unit, const at::Tensor& values) {
  if (units_.empty()) return absl::OkStatus();
  LH_RETURN_IF_ERROR(exchange_.CompressedMean(units_[unit], values));
  loss_.Add(units_[unit].loss().error_energy, units_[unit].loss().signal_energy);
  return absl::OkStatus();
}

void MomentumExchange::Resume(int64_t frozen_at, const VarianceLook& last_look) {
  optimizer_.SetFrozenAt(frozen_at);
  watch_.SetLast(last_look);
  begun_ = changes_variance_ = false;
  units_.clear();
  if (frozen_at > 0) Begin();
}

absl::Span<float> MomentumExchange::feedback(Feedback end, int unit) {
  if (units_.empty()) return {};
  return end == Feedback::kWorker ? units_[unit].worker_error() : units_[unit].server_error();
}

int64_t MomentumExchange::kept_bytes() const {
  int64_t bytes = 0;
  for (const CompressedAllReduce& unit : units_) {
    bytes += (unit.elements() + unit.chunk().size) * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

}  // namespace longhaul
