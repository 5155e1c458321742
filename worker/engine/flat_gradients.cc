#include "worker/engine/flat_gradients.h"

#include <utility>

#include "ATen/ops/empty.h"

namespace longhaul {

FlatGradients::FlatGradients(const ModelLayout& layout, const ShardPlan& plan, at::Device device)
    : layout_(layout), plan_(plan), device_(device), units_(layout.units.size()) {
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit) {
    units_[unit].contributed.resize(layout.units[unit].tensors.size());
    if (plan.splits_gradients()) {
      units_[unit].owned = Make(plan.owned(unit).count);
      made_bytes_ += static_cast<int64_t>(units_[unit].owned.nbytes());
    }
  }
}

at::Tensor FlatGradients::Make(int64_t elements) const {
  return at::empty({elements}, c10::TensorOptions(at::kFloat).device(device_));
}

void FlatGradients::BeginStep() {
  for (Unit& unit : units_) unit.contributed.assign(unit.contributed.size(), false);
}

void FlatGradients::Open(int unit) {
  at::Tensor& flat = units_[unit].flat;
  if (flat.defined()) return;
  const int64_t elements = layout_.units[unit].elements;
  absl::MutexLock lock(&mutex_);
  std::vector<at::Tensor>& free = free_[elements];
  if (free.empty()) {
    flat = Make(elements);
    made_bytes_ += static_cast<int64_t>(flat.nbytes());
  } else {
    flat = std::move(free.back());
    free.pop_back();
  }
}

at::Tensor FlatGradients::View(TensorRef ref) const {
  const TensorLayout& tensor = layout_.units[ref.unit].tensors[ref.tensor];
  return units_[ref.unit].flat.narrow(0, tensor.offset, tensor.elements).view(tensor.shape);
}

void FlatGradients::Add(TensorRef ref, const at::Tensor& gradient) {
  Open(ref.unit);
  Unit& unit = units_[ref.unit];
  if (unit.contributed[ref.tensor]) {
    View(ref).add_(gradient);
  } else {
    View(ref).copy_(gradient);
  }
  unit.contributed[ref.tensor] = true;
}

void FlatGradients::Finish(int unit) {
  Open(unit);
  const std::vector<bool>& contributed = units_[unit].contributed;
  for (int t = 0; t < static_cast<int>(contributed.size()); ++t) {
    if (!contributed[t]) View({unit, t}).zero_();
  }
}

void FlatGradients::Reduced(int unit) {
  if (!plan_.splits_gradients()) return;
  Unit& u = units_[unit];
  const ElementRange& owned = plan_.owned(unit);
  u.owned.copy_(u.flat.narrow(0, owned.first, owned.count));
  absl::MutexLock lock(&mutex_);
  free_[layout_.units[unit].elements].push_back(std::exchange(u.flat, at::Tensor()));
}

at::Tensor FlatGradients::Range(int unit, const ElementRange& range) const {
  const Unit& u = units_[unit];
  return plan_.splits_gradients()
             ? u.owned.narrow(0, range.first - plan_.owned(unit).first, range.count)
             : u.flat.narrow(0, range.first, range.count);
}

int64_t FlatGradients::bytes() const {
  absl::MutexLock lock(&mutex_);
  return made_bytes_;
}

}  // namespace longhaul
