// The engine's evaluations, which interrupt training or run beside it.
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/weight_stream.h"

namespace longhaul {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

absl::StatusOr<std::vector<double>> Engine::Evaluate(StagedBatch share) {
  return CatchTorch("evaluating", [&]() -> absl::StatusOr<std::vector<double>> {
    LH_RETURN_IF_ERROR(CheckSettled());
    Prepare(share);
    WeightStream stream(*model_, weights_, *queue_, EvaluationUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(const MetricSums metrics,
                        ForwardOnly(*model_, share, stream, fused_.get()));
    LH_RETURN_IF_ERROR(AwaitOwnWork("evaluating"));
    std::vector<double> sums = metrics.Total();
    // A weight that is not finite has no quantized form, so what is computed has no meaning.
    if (!weights_.loss().Take().finite) absl::c_fill(sums, kNaN);
    LH_RETURN_IF_ERROR(Sum(absl::MakeSpan(sums)));
    return sums;
  });
}

absl::StatusOr<EvaluationMemory> Engine::PrepareEvaluationBeside(const StagedBatch& share) {
  return CatchTorch(
      "preparing evaluation alongside training", [&]() -> absl::StatusOr<EvaluationMemory> {
        EvaluationMemory memory{.snapshot = WeightSnapshot::BytesOf(layout(), compute_)};
        if (fused_ == nullptr) return memory;
        fused_beside_ = model_->MakeFusedPass(compute_);
        // Allocates the memory for such a batch.
        if (share.examples > 0) fused_beside_->Begin(share, {});
        memory.activations = fused_beside_->bytes();
        return memory;
      });
}

absl::StatusOr<EvaluatedWeights> Engine::CopyWeights() {
  return CatchTorch("copying the weights", [&]() -> absl::StatusOr<EvaluatedWeights> {
    LH_RETURN_IF_ERROR(CheckSettled());
    WeightStream stream(*model_, weights_, *queue_, CopyUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(WeightSnapshot weights, WeightSnapshot::Take(*model_, stream));
    return EvaluatedWeights{std::move(weights), weights_.loss().Take().finite};
  });
}

absl::StatusOr<std::vector<double>> Engine::EvaluateBeside(const EvaluatedWeights& weights,
                                                           StagedBatch share) const {
  return CatchTorch("evaluating alongside training", [&]() -> absl::StatusOr<std::vector<double>> {
    const std::vector<double> none = MetricSums::OfEvaluation(*model_).Total();
    if (!weights.finite) return std::vector<double>(none.size(), kNaN);
    if (share.examples == 0) return none;
    Prepare(share);
    return SumsOf(*model_, weights.snapshot, share, fused_beside_.get());
  });
}

absl::Status Engine::Sum(absl::Span<double> values) {
  const auto sums = std::make_shared<std::vector<double>>(values.begin(), values.end());
  LH_RETURN_IF_ERROR(
      RunQueued("summing numbers", [this, sums] { return exchange_->Sum(absl::MakeSpan(*sums)); }));
  absl::c_copy(*sums, values.begin());
  return absl::OkStatus();
}

}  // namespace longhaul
