#include "worker/engine/torch_muon.h"

#include <utility>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/addmm.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/zeros.h"
#include "common/base/check.h"
#include "worker/engine/subgroup_tensors.h"

namespace longhaul {
namespace {

// X of muon_options.h, line by line: approximately U V^T of the momentum, in float32.
at::Tensor Orthogonalize(const MuonOptions& options, const at::Tensor& momentum) {
  const bool tall = momentum.size(0) > momentum.size(1);
  const at::Tensor norm = at::linalg_vector_norm(momentum).add(kMuonEps);
  at::Tensor x = (tall ? momentum.t() : momentum).div(norm).contiguous();
  const bool narrow =
      options.iterations == MuonPrecision::kBfloat16 && x.size(0) >= kMuonNarrowSideMin;
  if (narrow) x = x.to(at::kBFloat16);
  for (const MuonStep& step : kMuonSteps) {
    // A = X X^T ;  B = b A + c A A ;  X <- a X + B X
    const at::Tensor a = at::mm(x, x.t());
    const at::Tensor b = at::addmm(a, a, a, step.b, step.c);
    x = at::addmm(x, b, x, step.a, 1);
  }
  return (tall ? x.t() : x).to(at::kFloat);
}

}  // namespace

void UpdateMatrix(const MuonOptions& options, const SubgroupShape& shape,
                  const UpdateOptions& update, const SubgroupUpdate& of, at::Tensor momentum,
                  at::Device device) {
  const at::NoGradGuard no_grad;
  const auto shaped = [&](const at::Tensor& flat) {
    return flat.view({shape.rows, shape.columns});
  };
  const at::Tensor gradient = shaped(ScaledGradient(of, update.gradient_scale, device));
  at::Tensor parameters = shaped(TensorOf(of.parameters, device));
  momentum.mul_(options.momentum).add_(gradient);
  const double rate = update.learning_rate;
  if (shape.decay) parameters.mul_(1 - rate * options.weight_decay);
  parameters.add_(Orthogonalize(options, momentum),
                  -rate * MuonScale(options.scaling, shape.rows, shape.columns));
  if (!of.shadow.empty()) shaped(TensorOf(of.shadow, device)).copy_(parameters);
}

TorchMuon::TorchMuon(const MuonOptions& options, absl::Span<const SubgroupShape> subgroups,
                     at::Device device, std::unique_ptr<Optimizer> rest)
    : options_(options), device_(device), rest_(std::move(rest)) {
  int others = 0;
  for (const SubgroupShape& shape : subgroups) {
    Part& part = parts_.emplace_back();
    part.shape = shape;
    if (shape.matrix()) {
      LH_CHECK(shape.rows * shape.columns == shape.elements, "a matrix is not whole");
      part.momentum =
          at::zeros({shape.rows, shape.columns}, c10::TensorOptions(at::kFloat).device(device));
    } else {
      part.rest = others++;
    }
  }
}

void TorchMuon::Begin(const UpdateOptions& options) {
  update_ = options;
  rest_->Begin({.learning_rate = options.learning_rate * options_.adamw_rate,
                .gradient_scale = options.gradient_scale});
}

void TorchMuon::Submit(const SubgroupUpdate& update) {
  const Part& part = parts_[update.subgroup];
  if (!part.shape.matrix()) {
    SubgroupUpdate own = update;
    own.subgroup = part.rest;
    return rest_->Submit(own);
  }
  LH_CHECK(update.Fits(part.shape.elements), "a subgroup has another size");
  UpdateMatrix(options_, part.shape, update_, update, part.momentum, device_);
}

bool TorchMuon::Settled(int subgroup) const {
  const Part& part = parts_[subgroup];
  return part.shape.matrix() || rest_->Settled(part.rest);
}

bool TorchMuon::Keeps(OptimizerState state, int subgroup) const {
  const Part& part = parts_[subgroup];
  if (part.shape.matrix()) return state == OptimizerState::kMoment;
  return rest_->Keeps(state, part.rest);
}

absl::Status TorchMuon::ReadState(OptimizerState state, int subgroup, int64_t first,
                                  absl::Span<float> values) const {
  const Part& part = parts_[subgroup];
  if (!part.shape.matrix()) return rest_->ReadState(state, part.rest, first, values);
  const at::Tensor host = TensorOf(values, at::kCPU);
  host.copy_(part.momentum.flatten().narrow(0, first, host.numel()));
  return absl::OkStatus();
}

absl::Status TorchMuon::WriteState(OptimizerState state, int subgroup, int64_t first,
                                   absl::Span<const float> values) {
  const Part& part = parts_[subgroup];
  if (!part.shape.matrix()) return rest_->WriteState(state, part.rest, first, values);
  const at::Tensor host = TensorOf(values, at::kCPU);
  part.momentum.view({-1}).narrow(0, first, host.numel()).copy_(host);
  return absl::OkStatus();
}

int64_t TorchMuon::state_bytes() const {
  int64_t bytes = rest_->state_bytes();
  for (const Part& part : parts_) {
    if (part.shape.matrix()) bytes += static_cast<int64_t>(part.momentum.nbytes());
  }
  return bytes;
}

}  // namespace longhaul
