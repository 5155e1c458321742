#include "worker/engine/weight_snapshot.h"

#include <algorithm>
#include <map>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/empty.h"
#include "common/base/status_macros.h"
#include "worker/engine/segmented_pass.h"

namespace longhaul {
namespace {

// Copies the memory that tensors share as a whole, so that the tensors of one product stay
// neighbours.
std::vector<at::Tensor> CopyTogether(absl::Span<const at::Tensor> tensors) {
  struct Range {
    int64_t first, end;
    at::Tensor copy;
  };
  // By storage.
  std::map<const void*, Range> ranges;
  const auto storage_of = [](const at::Tensor& tensor) {
    return static_cast<const void*>(tensor.storage().unsafeGetStorageImpl());
  };
  for (const at::Tensor& tensor : tensors) {
    const int64_t first = tensor.storage_offset(), end = first + tensor.numel();
    const auto [found, fresh] = ranges.try_emplace(storage_of(tensor), Range{first, end, {}});
    if (fresh) continue;
    found->second.first = std::min(found->second.first, first);
    found->second.end = std::max(found->second.end, end);
  }
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    Range& range = ranges.at(storage_of(tensor));
    if (!range.copy.defined())
      range.copy = at::empty({range.end - range.first}, tensor.options().requires_grad(false));
    const int64_t first = tensor.storage_offset() - range.first;
    copies.push_back(range.copy.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    copies.back().copy_(tensor);
  }
  return copies;
}

}  // namespace

absl::StatusOr<WeightSnapshot> WeightSnapshot::Take(const Model& model, WeightStream& weights) {
  const at::NoGradGuard no_grad;
  WeightSnapshot snapshot;
  for (size_t unit = 0; unit < model.layout().units.size(); ++unit) {
    LH_ASSIGN_OR_RETURN(const std::vector<at::Tensor> taken, weights.Take());
    snapshot.leaves_.push_back(CopyTogether(taken));
    weights.Done();
  }
  return snapshot;
}

int64_t WeightSnapshot::BytesOf(const ModelLayout& layout, at::ScalarType compute) {
  int64_t bytes = 0;
  for (const UnitLayout& unit : layout.units) {
    for (const TensorLayout& tensor : unit.tensors) {
      const bool narrow = compute != at::kFloat && tensor.shape.size() >= 2;
      bytes += tensor.elements * (narrow ? 2 : 4);
    }
  }
  return bytes;
}

std::vector<at::Tensor> WeightSnapshot::Leaves(const Model& model, int unit) const {
  std::vector<at::Tensor> leaves = leaves_[unit];
  for (const TensorRef& ref : model.Borrowed(unit)) leaves.push_back(leaves_[ref.unit][ref.tensor]);
  return leaves;
}

int64_t WeightSnapshot::bytes() const {
  int64_t bytes = 0;
  for (const auto& unit : leaves_) {
    for (const at::Tensor& tensor : unit) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

std::vector<double> SumsOf(const Model& model, const WeightSnapshot& weights,
                           const StagedBatch& batch, FusedPass* fused) {
  const at::NoGradGuard no_grad;
  if (fused != nullptr) fused->Begin(batch, {});
  at::Tensor x;
  for (int unit = 0; unit < static_cast<int>(model.layout().units.size()); ++unit) {
    const std::vector<at::Tensor> leaves = weights.Leaves(model, unit);
    if (fused != nullptr) {
      fused->Forward(unit, leaves);
    } else {
      x = model.Forward(unit, leaves, x, batch);
    }
  }
  MetricSums sums = MetricSums::OfEvaluation(model);
  fused != nullptr ? sums.Add(fused->sums()) : sums.Add(x);
  return sums.Total();
}

}  // namespace longhaul
