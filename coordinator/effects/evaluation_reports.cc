#include "coordinator/effects/evaluation_reports.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
namespace {

// Whether the versions that it is of are committed.
absl::Status CheckCommitted(const LiveJob& job, const Evaluation& e) {
  const bool last = e.final && !e.of_pool;
  const int64_t whole = job.progress.WholeVersion();
  if (last ? job.state() == JobState::kFinishing : e.version >= 1 && e.version <= whole)
    return absl::OkStatus();
  return BadRequestError(
      {{"evaluations",
        absl::StrCat(
            last ? std::string("the final one") : absl::StrCat("one of version ", e.version),
            " at step ", e.step, " came before its commits: every fragment has version ", whole,
            "; report a version after it was merged")}});
}

}  // namespace

absl::StatusOr<EvaluationReports> TakeEvaluations(const LiveJob& job, const std::string& pool,
                                                  std::vector<Evaluation> reported) {
  EvaluationReports reports;
  if (!job.progress.HasCommits()) return reports;
  for (const Evaluation& e : reported) LH_RETURN_IF_ERROR(CheckCommitted(job, e));
  std::set<std::pair<bool, int64_t>> seen;
  for (Evaluation& e : reported) {
    // The core takes the first final one.
    const bool last = e.final && !e.of_pool;
    const bool of_site = job.every_pool_evaluates() && !e.of_pool;
    if (!last && of_site && job.progress.WasEvaluatedAt(pool, e.version)) continue;
    if (!last && (!seen.emplace(e.of_pool, e.version).second ||
                  (!of_site && job.progress.WasEvaluated(e.of_pool ? pool : "", e.version))))
      continue;
    if (!last && !e.of_pool && !of_site && !job.progress.MayEvaluate(pool, e.version)) {
      ++reports.refused;
      continue;
    }
    if (!e.of_pool) e.step = StepOfEvaluation(*job.resolved, e.version, e.final);
    reports.taken.push_back(std::move(e));
  }
  return reports;
}

void EvaluationsStored(LiveJob& job, const std::string& pool, absl::Span<const Evaluation> stored) {
  for (const Evaluation& e : stored) {
    if (e.of_pool || e.final) continue;
    if (job.every_pool_evaluates()) {
      job.progress.AnsweredAt(pool, e.version);
    } else {
      job.progress.Answered(pool, e.version);
    }
  }
}

}  // namespace longhaul::coordinator
