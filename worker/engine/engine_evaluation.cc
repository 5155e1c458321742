// The engine's evaluations, which interrupt training or run beside it.
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ATen/ops/zeros.h"
#include "absl/algorithm/container.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine.h"
#include "worker/engine/segmented_pass.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/weight_stream.h"

namespace longhaul {

absl::StatusOr<double> Engine::LossSum(const TokenBatch& share) {
  return CatchTorch("evaluating", [&]() -> absl::StatusOr<double> {
    LH_RETURN_IF_ERROR(CheckSettled());
    WeightStream stream(*model_, weights_, *queue_, EvaluationUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(const PassLoss loss,
                        ForwardOnly(*model_, ToDevice(share), stream, fused_.get()));
    LH_RETURN_IF_ERROR(AwaitOwnWork("evaluating"));
    double sum = loss.Total();
    // A weight that is not finite has no quantized form, so the computed loss has no meaning.
    if (!weights_.loss().Take().finite) sum = std::numeric_limits<double>::quiet_NaN();
    LH_RETURN_IF_ERROR(Sum(absl::MakeSpan(&sum, 1)));
    return sum;
  });
}

absl::StatusOr<EvaluationMemory> Engine::PrepareEvaluationBeside(int64_t sequences,
                                                                 int64_t context) {
  return CatchTorch(
      "preparing evaluation alongside training", [&]() -> absl::StatusOr<EvaluationMemory> {
        EvaluationMemory memory{.snapshot = WeightSnapshot::BytesOf(layout(), compute_)};
        if (fused_ == nullptr) return memory;
        fused_beside_ = model_->MakeFusedPass(compute_);
        // Allocates the memory for the largest batch.
        if (sequences > 0) {
          const at::Tensor tokens = at::zeros({sequences, context}, c10::TensorOptions(at::kLong));
          fused_beside_->Begin({tokens, tokens}, {});
        }
        memory.activations = fused_beside_->bytes();
        return memory;
      });
}

absl::StatusOr<EvaluatedWeights> Engine::CopyWeights() {
  return CatchTorch("copying the weights", [&]() -> absl::StatusOr<EvaluatedWeights> {
    LH_RETURN_IF_ERROR(CheckSettled());
    WeightStream stream(*model_, weights_, *queue_, EvaluationUses(*model_), gathers_ahead_);
    LH_ASSIGN_OR_RETURN(WeightSnapshot weights, WeightSnapshot::Take(*model_, stream));
    return EvaluatedWeights{std::move(weights), weights_.loss().Take().finite};
  });
}

absl::StatusOr<double> Engine::LossSumBeside(const EvaluatedWeights& weights,
                                             const TokenBatch& share) const {
  return CatchTorch("evaluating alongside training", [&]() -> absl::StatusOr<double> {
    if (!weights.finite) return std::numeric_limits<double>::quiet_NaN();
    const std::optional<Batch> batch = ToDevice(share);
    if (!batch.has_value()) return 0;
    return longhaul::LossSum(*model_, weights.snapshot, *batch, fused_beside_.get());
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
