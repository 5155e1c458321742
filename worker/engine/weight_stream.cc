#include "worker/engine/weight_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

std::string NameOf(const ModelLayout& layout, const UnitUse& use) {
  return absl::StrCat("gathering ", layout.units[use.unit].name,
                      use.pass == Pass::kForward    ? " for forward"
                      : use.pass == Pass::kBackward ? " for backward"
                                                    : " for evaluation");
}

}  // namespace

WeightStream::WeightStream(const Model& model, ComputeWeights& weights, StreamQueue& queue,
                           std::vector<UnitUse> uses, int ahead)
    : model_(model), weights_(weights), queue_(queue), uses_(std::move(uses)), ahead_(ahead) {}

WeightStream::~WeightStream() {
  // After an error, gathers that run may still write to the units.
  for (const auto& [unit, open] : open_) queue_.Wait(open.ticket).IgnoreError();
  for (const auto& [unit, open] : open_) weights_.Close(unit);
}

std::vector<TensorRef> WeightStream::BorrowedBy(int use) const {
  return uses_[use].borrows ? model_.Borrowed(uses_[use].unit) : std::vector<TensorRef>();
}

std::vector<int> WeightStream::UnitsOf(int use) const {
  std::vector<int> units = {uses_[use].unit};
  for (const TensorRef& ref : BorrowedBy(use)) units.push_back(ref.unit);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

// False: a unit is still open for another pass, which gathers from another source.
bool WeightStream::TryGather(int use) {
  const std::vector<int> units = UnitsOf(use);
  for (const int unit : units) {
    const auto open = open_.find(unit);
    if (open != open_.end() && open->second.pass != uses_[use].pass) return false;
  }
  for (const int unit : units) {
    Open& open = open_[unit];
    if (open.users++ > 0) continue;
    open.pass = uses_[use].pass;
    weights_.Open(unit, open.pass);
    open.ticket =
        queue_.Submit(NameOf(model_.layout(), {unit, open.pass}),
                      [this, unit, pass = open.pass] { return weights_.Gather(unit, pass); });
  }
  return true;
}

absl::StatusOr<std::vector<at::Tensor>> WeightStream::Take() {
  if (weights_.split()) {
    const int end = std::min(static_cast<int>(uses_.size()), present_ + 1 + ahead_);
    while (gathered_ < end && TryGather(gathered_)) ++gathered_;
    for (const int unit : UnitsOf(present_)) LH_RETURN_IF_ERROR(queue_.Wait(open_[unit].ticket));
  }
  return weights_.Leaves(uses_[present_].unit, BorrowedBy(present_));
}

void WeightStream::Done() {
  if (weights_.split()) {
    for (const int unit : UnitsOf(present_)) {
      const auto open = open_.find(unit);
      if (--open->second.users > 0) continue;
      weights_.Close(unit);
      open_.erase(open);
    }
  }
  ++present_;
}

}  // namespace longhaul
