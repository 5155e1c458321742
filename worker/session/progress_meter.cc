#include "worker/session/progress_meter.h"

namespace longhaul::session {

void ProgressMeter::Stepped(int64_t step, const StepStats& stats, bool beside) {
  progress_.inner_step = step;
  if (stats.skipped) {
    ++progress_.skipped_steps;
  } else {
    progress_.tokens += stats.tokens;
    progress_.target_tokens += stats.target_tokens;
    if (beside) tokens_beside_ += stats.tokens;
  }
  progress_.train_loss = stats.loss;
  progress_.gradient_norm = stats.gradient_norm;
  progress_.learning_rate = stats.learning_rate;
  progress_.compute_seconds += stats.compute_seconds;
  progress_.received += stats.received;
  progress_.weights_nmse = stats.weights_nmse;
  progress_.gradients_nmse = stats.gradients_nmse;
}

void ProgressMeter::Waited(absl::Duration time) {
  if (training_) progress_.exposed_wait_seconds += absl::ToDoubleSeconds(time);
}

void ProgressMeter::Synced(absl::Duration time) {
  progress_.sync_seconds += absl::ToDoubleSeconds(time);
}

Progress ProgressMeter::Read(absl::Time now, const Evaluations& evaluations) const {
  Progress progress = progress_;
  const double all = absl::ToDoubleSeconds(now - since_);
  const double quiet = all - absl::ToDoubleSeconds(evaluations.busy(now));
  const auto tokens = static_cast<double>(progress.tokens);
  const double quiet_tokens = tokens - static_cast<double>(tokens_beside_);
  progress.eval_seconds = absl::ToDoubleSeconds(evaluations.stood_still());
  progress.tokens_per_second_with_evaluation = all > 0 ? tokens / all : 0;
  progress.tokens_per_second = quiet > 0 && quiet_tokens > 0
                                   ? quiet_tokens / quiet
                                   : progress.tokens_per_second_with_evaluation;
  return progress;
}

}  // namespace longhaul::session
