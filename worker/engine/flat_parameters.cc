#include "worker/engine/flat_parameters.h"

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

// A leaf of its own (not a view, which autograd would tie to the buffer's history) on the buffer's
// memory.
at::Tensor MakeLeaf(const at::Tensor& flat, const TensorLayout& tensor) {
  std::vector<int64_t> strides(tensor.shape.size(), 1);
  for (size_t d = tensor.shape.size() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * tensor.shape[d];
  at::Tensor leaf = at::empty({0}, flat.options());
  leaf.set_(flat.storage(), tensor.offset, tensor.shape, strides);
  return leaf.requires_grad_();
}

at::Tensor OnHost(const float* data, size_t size) {
  return at::from_blob(const_cast<float*>(data), {static_cast<int64_t>(size)},
                       c10::TensorOptions(at::kFloat));
}

}  // namespace

FlatParameters::FlatParameters(const ModelLayout& layout, at::Device device,
                               at::ScalarType compute) {
  const auto options = c10::TensorOptions().device(device);
  for (const UnitLayout& unit_layout : layout.units) {
    Unit unit{.master = at::zeros({unit_layout.elements}, options.dtype(at::kFloat))};
    if (compute != at::kFloat)
      unit.shadow = at::zeros({unit_layout.elements}, options.dtype(compute));
    for (const TensorLayout& tensor : unit_layout.tensors) {
      const bool narrow = unit.shadow.defined() && tensor.shape.size() > 1;
      unit.leaves.push_back(MakeLeaf(narrow ? unit.shadow : unit.master, tensor));
    }
    units_.push_back(std::move(unit));
  }
}

std::vector<at::Tensor> FlatParameters::Leaves(int unit, absl::Span<const TensorRef> borrowed) {
  RenewShadow(units_[unit]);
  std::vector<at::Tensor> leaves = units_[unit].leaves;
  for (const TensorRef& ref : borrowed) {
    RenewShadow(units_[ref.unit]);
    leaves.push_back(units_[ref.unit].leaves[ref.tensor]);
  }
  return leaves;
}

void FlatParameters::RenewShadow(Unit& unit) {
  if (!unit.shadow.defined() || unit.shadow_version == unit.version) return;
  unit.shadow.copy_(unit.master);
  unit.shadow_version = unit.version;
}

void FlatParameters::Read(int unit, int64_t offset, absl::Span<float> out) const {
  OnHost(out.data(), out.size())
      .copy_(units_[unit].master.narrow(0, offset, static_cast<int64_t>(out.size())));
}

void FlatParameters::Write(int unit, int64_t offset, absl::Span<const float> in) {
  units_[unit]
      .master.narrow(0, offset, static_cast<int64_t>(in.size()))
      .copy_(OnHost(in.data(), in.size()));
  Wrote(unit);
}

}  // namespace longhaul
