#include "common/track/pool_scalars.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace longhaul {

std::vector<Scalar> ProgressScalars(const v1::PoolProgress& progress) {
  std::vector<Scalar> scalars = {
      {"train/loss", progress.train_loss()},
      {"train/tokens", static_cast<double>(progress.tokens())},
      {"train/tokens_per_second", progress.tokens_per_second()},
      {"train/skipped_steps", static_cast<double>(progress.skipped_steps())},
      {"exchange/uplink_nmse", progress.uplink_nmse()},
      {"exchange/error_feedback_norm", progress.error_feedback_norm()},
      {"exchange/exposed_wait_seconds", progress.exposed_wait_seconds()}};
  // Only if the loss is not on all tokens.
  if (progress.target_tokens() > 0)
    scalars.push_back({"train/target_tokens", static_cast<double>(progress.target_tokens())});
  // An earlier version of the worker does not report these.
  if (progress.learning_rate() > 0)
    scalars.push_back({"train/learning_rate", progress.learning_rate()});
  if (progress.gradient_norm() > 0)
    scalars.push_back({"train/gradient_norm", progress.gradient_norm()});
  if (progress.tokens_per_second_with_evaluation() > 0) {
    scalars.push_back(
        {"train/tokens_per_second_with_evaluation", progress.tokens_per_second_with_evaluation()});
  }
  return scalars;
}

std::vector<Scalar> EvaluationScalars(double loss, absl::Span<const NamedValue> metrics,
                                      bool final) {
  const std::vector<NamedValue> of_loss = {{"loss", loss}, {"perplexity", std::exp(loss)}};
  if (metrics.empty()) metrics = of_loss;
  std::vector<Scalar> scalars;
  for (const NamedValue& metric : metrics) {
    scalars.push_back({absl::StrCat("eval/", metric.name), metric.value});
    if (final) scalars.push_back({absl::StrCat("final/", metric.name), metric.value});
  }
  return scalars;
}

}  // namespace longhaul
