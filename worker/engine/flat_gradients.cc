#include "worker/engine/flat_gradients.h"

#include <utility>

#include "ATen/ops/empty.h"
#include "absl/algorithm/container.h"

namespace longhaul {

FlatGradients::FlatGradients(const ModelLayout& layout, const ShardPlan& plan, at::Device device)
    : layout_(layout), plan_(plan), device_(device), units_(layout.units.size()) {
  for (int i = 0; i < static_cast<int>(units_.size()); ++i) {
    Unit& unit = units_[i];
    unit.contributed.resize(layout.units[i].tensors.size());
    if (split()) {
      unit.kept = Make(plan.Held(i, plan.map().gradients.level).count);
    } else {
      unit.flat = Make(layout.units[i].elements);
    }
  }
}

at::Tensor FlatGradients::Make(int64_t elements) const {
  return at::empty({elements}, c10::TensorOptions(at::kFloat).device(device_));
}

void FlatGradients::BeginStep() {
  for (Unit& unit : units_) {
    unit.contributed.assign(unit.contributed.size(), false);
    unit.has_kept = false;
  }
}

bool FlatGradients::any() const {
  return absl::c_any_of(
      units_, [](const Unit& unit) { return absl::c_linear_search(unit.contributed, true); });
}

void FlatGradients::Open(int unit) {
  at::Tensor& flat = units_[unit].flat;
  if (flat.defined()) return;
  const int64_t elements = layout_.units[unit].elements;
  std::vector<at::Tensor>& free = free_[elements];
  if (free.empty()) {
    flat = Make(elements);
    transient_bytes_ += static_cast<int64_t>(flat.nbytes());
  } else {
    flat = std::move(free.back());
    free.pop_back();
  }
}

at::Tensor FlatGradients::View(TensorRef ref) const {
  const TensorLayout& tensor = layout_.units[ref.unit].tensors[ref.tensor];
  return units_[ref.unit].flat.narrow(0, tensor.offset, tensor.elements).view(tensor.shape);
}

void FlatGradients::Add(TensorRef ref, const at::Tensor& gradient) { Place(ref).Take(gradient); }

GradientPlace FlatGradients::Place(TensorRef ref) {
  const bool add = Slot(ref).add;
  return {View(ref), add};
}

GradientSlot FlatGradients::Slot(TensorRef ref) {
  Open(ref.unit);
  Unit& unit = units_[ref.unit];
  const bool add = unit.contributed[ref.tensor];
  unit.contributed[ref.tensor] = true;
  return {unit.flat.data_ptr<float>() + layout_.units[ref.unit].tensors[ref.tensor].offset, add};
}

void FlatGradients::Finish(int unit) {
  Open(unit);
  std::vector<bool>& contributed = units_[unit].contributed;
  for (int t = 0; t < static_cast<int>(contributed.size()); ++t) {
    if (!contributed[t]) View({unit, t}).zero_();
    contributed[t] = true;
  }
}

void FlatGradients::Keep(int unit) {
  Unit& u = units_[unit];
  const at::Tensor part = u.flat.narrow(0, first(unit), u.kept.numel());
  if (u.has_kept) {
    u.kept.add_(part);
  } else {
    u.kept.copy_(part);
  }
  u.has_kept = true;
}

void FlatGradients::Release(int unit) {
  Unit& u = units_[unit];
  u.contributed.assign(u.contributed.size(), false);
  free_[layout_.units[unit].elements].push_back(std::exchange(u.flat, at::Tensor()));
}

int64_t FlatGradients::kept_bytes() const {
  int64_t bytes = 0;
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
    bytes += static_cast<int64_t>(sum(unit).nbytes());
  return bytes;
}

}  // namespace longhaul
