#include "worker/engine/engine.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/linalg_vector_norm.h"
#include "ATen/ops/stack.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/torch_adamw.h"
#include "worker/engine/torch_status.h"
#include "worker/model/initialization.h"
#include "worker/optim/adamw.h"
#include "worker/optim/clipping.h"
#include "worker/optim/squared_norm.h"

namespace longhaul {
namespace {

// Whose gradients wait to be reduced, each in a buffer, while backward makes the next: one that is
// being reduced, and one behind it.
constexpr size_t kUnitsUnderWay = 2;

std::unique_ptr<Optimizer> MakeOptimizer(const AdamWOptions& options, const ShardPlan& plan,
                                         at::Device device) {
  std::vector<OptimizerRun> runs;
  for (const UpdateRun& run : plan.runs()) runs.push_back({run.range.count, run.decay});
  if (device.is_cpu()) return std::make_unique<AdamW>(options, runs);
  return std::make_unique<TorchAdamW>(options, runs, device);
}

absl::Span<float> SpanOf(const at::Tensor& flat) {
  return {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())};
}
absl::Span<float> SpanOf(const at::Tensor& flat, const ElementRange& range) {
  return SpanOf(flat).subspan(range.first, range.count);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Options options) {
  return CatchTorch("creating the engine", [&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    const uint64_t seed = options.seed;
    std::unique_ptr<Engine> engine(new Engine(std::move(options)));
    LH_RETURN_IF_ERROR(engine->Initialize(seed));
    return engine;
  });
}

Engine::Engine(Options options)
    : model_(std::move(options.model)),
      device_(options.device),
      clip_norm_(options.clip_norm),
      exchange_(options.link, device_),
      plan_(model_->layout(), options.partition, exchange_.rank(), exchange_.ranks()),
      parameters_(model_->layout(), device_, options.compute),
      gradients_(model_->layout(), plan_, device_),
      optimizer_(MakeOptimizer(options.adamw, plan_, device_)) {
  if (exchange_.ranks() > 1) {
    reductions_ = std::make_unique<ReduceQueue>(
        [this](int unit) { return ReduceUnit(unit); },
        plan_.splits_gradients() ? kUnitsUnderWay : layout().units.size());
  }
}

// Each rank makes what it owns; the exchange makes the ranks equal even where their mathematical
// libraries are not.
absl::Status Engine::Initialize(uint64_t seed) {
  std::vector<int> units(layout().units.size());
  std::iota(units.begin(), units.end(), 0);
  for (int unit : units) {
    const ElementRange& owned = plan_.owned(unit);
    std::vector<float> values(owned.count);
    InitializeParameters(*model_, seed, unit, owned.first, absl::MakeSpan(values));
    parameters_.Write(unit, owned.first, values);
  }
  return Publish(units);
}

absl::StatusOr<StepResult> Engine::Step(const TokenBatch& share, int64_t pool_tokens,
                                        double learning_rate) {
  return CatchTorch("training", [&]() -> absl::StatusOr<StepResult> {
    LH_ASSIGN_OR_RETURN(const double loss_sum, ComputeGradients(share, pool_tokens));
    double sums[] = {loss_sum, OwnedSquaredNorm()};
    LH_RETURN_IF_ERROR(exchange_.Sum(absl::MakeSpan(sums)));
    const StepResult result{.loss_sum = sums[0], .gradient_norm = std::sqrt(sums[1])};
    if (!std::isfinite(result.gradient_norm)) {
      return absl::InternalError(
          absl::StrFormat("the gradient is not finite (loss %g): training diverged; a lower "
                          "learning rate or a longer warm-up may help",
                          result.loss_sum / static_cast<double>(pool_tokens)));
    }
    LH_RETURN_IF_ERROR(Update(learning_rate, result.gradient_norm));
    return result;
  });
}

absl::StatusOr<double> Engine::ComputeGradients(const TokenBatch& share, int64_t pool_tokens) {
  gradients_.BeginStep();
  const auto ready = [this](int unit) {
    gradients_.Finish(unit);
    return reductions_ == nullptr ? absl::OkStatus() : reductions_->Submit(unit);
  };
  double loss_sum = 0;
  if (share.sequences > 0) {
    LH_ASSIGN_OR_RETURN(
        loss_sum, ForwardBackward(*model_, ToDevice(share), 1.0 / static_cast<double>(pool_tokens),
                                  parameters_, gradients_, ready));
  } else {
    for (int unit = static_cast<int>(layout().units.size()) - 1; unit >= 0; --unit)
      LH_RETURN_IF_ERROR(ready(unit));
  }
  if (reductions_ != nullptr) LH_RETURN_IF_ERROR(reductions_->Wait());
  return loss_sum;
}

absl::Status Engine::ReduceUnit(int unit) {
  return CatchTorch("reducing gradients", [&] {
    const at::Tensor& flat = gradients_.unit(unit);
    LH_RETURN_IF_ERROR(plan_.splits_optimizer() ? exchange_.ReduceScatter(flat, plan_.owners(unit))
                                                : exchange_.AllReduce(flat));
    gradients_.Reduced(unit);
    return absl::OkStatus();
  });
}

double Engine::OwnedSquaredNorm() const {
  double sum = 0;
  std::vector<at::Tensor> device_norms;  // Read back at once: each reading waits for the device.
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    const at::Tensor owned = gradients_.Range(unit, plan_.owned(unit));
    if (device_.is_cpu()) {
      sum += SquaredNorm(SpanOf(owned));
    } else if (owned.numel() > 0) {
      device_norms.push_back(at::linalg_vector_norm(owned, 2, {}, /*keepdim=*/false, at::kDouble));
    }
  }
  if (!device_norms.empty()) sum = at::stack(device_norms).square().sum().item<double>();
  return sum;
}

absl::Status Engine::Update(double learning_rate, double gradient_norm) {
  optimizer_->Begin(
      {.learning_rate = learning_rate, .gradient_scale = ClipScale(gradient_norm, clip_norm_)});
  for (size_t i = 0; i < plan_.runs().size(); ++i) {
    const UpdateRun& run = plan_.runs()[i];
    optimizer_->Update(static_cast<int>(i), SpanOf(parameters_.unit(run.unit), run.range),
                       SpanOf(gradients_.Range(run.unit, run.range)));
  }
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    if (plan_.splits_optimizer()) {
      LH_RETURN_IF_ERROR(exchange_.AllGather(parameters_.unit(unit), plan_.owners(unit)));
    }
    parameters_.Wrote(unit);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Engine::LossSum(const TokenBatch& share) {
  return CatchTorch("evaluating", [&]() -> absl::StatusOr<double> {
    double sum[] = {share.sequences > 0 ? ForwardOnly(*model_, ToDevice(share), parameters_) : 0};
    LH_RETURN_IF_ERROR(exchange_.Sum(absl::MakeSpan(sum)));
    return sum[0];
  });
}

Batch Engine::ToDevice(const TokenBatch& batch) const {
  LH_CHECK(static_cast<int64_t>(batch.tokens.size()) == batch.sequences * (batch.context + 1),
           "a batch has holes");
  const at::Tensor host =
      at::from_blob(const_cast<int64_t*>(batch.tokens.data()), {batch.sequences, batch.context + 1},
                    c10::TensorOptions(at::kLong));
  const at::Tensor tokens = host.to(device_);
  return {tokens.narrow(1, 0, batch.context), tokens.narrow(1, 1, batch.context)};
}

absl::Status Engine::Read(int unit, int64_t offset, absl::Span<float> out) const {
  return CatchTorch("reading parameters", [&]() -> absl::Status {
    parameters_.Read(unit, offset, out);
    return absl::OkStatus();
  });
}

absl::Status Engine::Write(int unit, int64_t offset, absl::Span<const float> in) {
  return CatchTorch("writing parameters", [&]() -> absl::Status {
    parameters_.Write(unit, offset, in);
    return absl::OkStatus();
  });
}

const float* Engine::DeviceParameters(int unit) const {
  return device_.is_cuda() ? parameters_.unit(unit).const_data_ptr<float>() : nullptr;
}

absl::Status Engine::Publish(absl::Span<const int> units) {
  return CatchTorch("publishing parameters", [&]() -> absl::Status {
    for (int unit : units) {
      LH_RETURN_IF_ERROR(exchange_.AllGather(parameters_.unit(unit), plan_.owners(unit)));
      parameters_.Wrote(unit);
    }
    return absl::OkStatus();
  });
}

}  // namespace longhaul
