// Which of the evaluations that a pool reports in a heartbeat are taken. The service and the
// simulation ask here before they give the heartbeat to the core.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/core/event.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {

struct EvaluationReports {
  // In the order in which they were reported.
  std::vector<Evaluation> taken;
  // How many are not taken since another pool was asked for them.
  int refused = 0;
};

// `reported`: by a pool that works on the job. Of a version the first report counts, and of the
// outer parameters only that of a pool that was asked to evaluate them (JobProgress::MayEvaluate);
// or, where every pool evaluates them, the first report of each pool.
// Evaluations of the outer parameters are kept by step, so what is taken has the step that follows
// from its version: a report cannot take the place of another version's. None is taken before the
// job's commits are known; the pool repeats its report. Owner thread.
//   INVALID_ARGUMENT  with a BadRequest: one is of a version that is not committed, or the final
//                     one comes before the last round
absl::StatusOr<EvaluationReports> TakeEvaluations(const LiveJob& job, const std::string& pool,
                                                  std::vector<Evaluation> reported);

// These evaluations of the pool, which were taken, are durable. Owner thread.
void EvaluationsStored(LiveJob& job, const std::string& pool, absl::Span<const Evaluation> stored);

}  // namespace longhaul::coordinator
