// The guard of a job that diverges: which evaluations count, and what follows.
#include <cmath>

#include "absl/strings/str_format.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {

// Takes an evaluation that a pool reports.
void Coordinator::Evaluated(Job& job, const Evaluation& evaluation, const std::string& pool) {
  const bool last = evaluation.final && !evaluation.of_pool;
  const bool by_all = job.options.every_pool_evaluates && !evaluation.of_pool;
  // Every pool evaluates after the last round, all of them the same parameters. The first counts,
  // or the first one of each pool.
  if (last && (by_all ? !job.evaluated_last.insert(pool).second : job.final_evaluation)) return;
  // A loss that is not a number is not a point of the curve.
  if (std::isfinite(evaluation.loss))
    out_.records.push_back(StoreEvaluation{job.id, pool, evaluation, by_all});
  if (evaluation.of_pool) return;
  const double loss =
      by_all ? job.pools_loss.Add({evaluation.step, last}, evaluation.loss, evaluation.tokens)
             : evaluation.loss;
  job.divergence.Observe(job.options.guard, evaluation.step, loss, now_);
  if (last) job.final_evaluation = true;
  Touch(job);
}

absl::Time Coordinator::GuardActsAt(const Job& job) {
  // While it finishes, FinishWhenReady looks at it.
  const bool acts = job.state() == JobState::kRunning && !IsPaused(job.pause);
  return acts ? job.divergence.ActsAt(job.options.guard) : absl::InfiniteFuture();
}

void Coordinator::Guard(Job& job) {
  if (now_ < GuardActsAt(job)) return;
  if (job.options.guard.on_divergence == DivergenceAction::kFail) return FailDiverged(job);
  BeginPause(job, kGuardName, job.divergence.words());
  // Its newest checkpoints are from before. One of now would take the place of the oldest.
  job.pause_checkpoint = FinalCheckpoint::kWritten;
  job.pause_checkpoint_outdated = false;
}

void Coordinator::FailDiverged(Job& job) {
  job.fault = JobFault{
      .code = kDivergedCode,
      .message = job.divergence.words(),
      .hint = absl::StrFormat(
          "submit it anew with a lower learning rate or a longer warm-up; `longhaul checkpoints "
          "%s` shows what a job can start from (--from %s@STEP)",
          job.options.name, job.options.name)};
  End(job, JobState::kFailed);
}

}  // namespace longhaul::coordinator
