#include "worker/engine/flat_gradients.h"

#include "ATen/ops/zeros.h"

namespace longhaul {

FlatGradients::FlatGradients(const ModelLayout& layout, at::Device device) {
  for (const UnitLayout& unit_layout : layout.units) {
    Unit unit{
        .flat = at::zeros({unit_layout.elements}, c10::TensorOptions(at::kFloat).device(device)),
        .contributed = std::vector<bool>(unit_layout.tensors.size())};
    for (const TensorLayout& tensor : unit_layout.tensors) {
      unit.views.push_back(unit.flat.narrow(0, tensor.offset, tensor.elements).view(tensor.shape));
    }
    units_.push_back(std::move(unit));
  }
}

void FlatGradients::BeginStep() {
  for (Unit& unit : units_) unit.contributed.assign(unit.contributed.size(), false);
}

void FlatGradients::Add(TensorRef ref, const at::Tensor& gradient) {
  Unit& unit = units_[ref.unit];
  if (unit.contributed[ref.tensor]) {
    unit.views[ref.tensor].add_(gradient);
  } else {
    unit.views[ref.tensor].copy_(gradient);
  }
  unit.contributed[ref.tensor] = true;
}

void FlatGradients::Finish(int unit) {
  Unit& u = units_[unit];
  for (size_t t = 0; t < u.views.size(); ++t) {
    if (!u.contributed[t]) u.views[t].zero_();
  }
}

}  // namespace longhaul
