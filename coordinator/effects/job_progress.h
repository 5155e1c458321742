// A job's progress, from the reports of its pools and from its commits. GetJob shows it together
// with the core's view.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/effects/loss_curve.h"
#include "coordinator/store/meta_records.h"
#include "coordinator/store/round_records.h"
#include "longhaul/store/v1/counters.pb.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/status.pb.h"

namespace longhaul::coordinator {

// One pool's part. If a pool begins again, its counts continue where they stopped.
struct PoolHistory {
  // Sums over its earlier stays in the job. inner_step is the number of steps that it did in them.
  // Also has the pool's data.
  v1::PoolProgress earlier;
  // Its newest report.
  v1::PoolProgress current;
  // Identifies the current stay in the job: the incarnation, and the step at which it began.
  std::string incarnation;
  int64_t start_step = 0;

  // The inner steps of all stays.
  int64_t steps() const;
  // `current`, with the sums over all stays.
  v1::PoolProgress Total() const;
};

// Owner thread.
class JobProgress {
 public:
  explicit JobProgress(size_t fragments) : commits_(fragments) {}

  // A report of a heartbeat with what may be in one: impossible numbers become zero, and counts
  // beyond 2^50 become 2^50; what the coordinator sets itself is removed. Pure.
  static v1::PoolProgress Cleaned(v1::PoolProgress progress);
  // Takes the report of a heartbeat; the second one is Cleaned already.
  void Report(const std::string& pool, const std::string& incarnation, int64_t start_step,
              v1::PoolProgress progress) {
    ReportCleaned(pool, incarnation, start_step, Cleaned(std::move(progress)));
  }
  void ReportCleaned(const std::string& pool, const std::string& incarnation, int64_t start_step,
                     v1::PoolProgress progress);
  const std::map<std::string, PoolHistory>& pools() const { return pools_; }
  // A round to which these pools contributed was committed: their reports until now count.
  void Contributed(const std::vector<std::string>& pools);
  // guard.outer left contributions out of a commit. They are counted.
  void CountLeftOut(const std::vector<LeftOut>& contributions);
  // In how many fragments the newest commit has left out this pool's contribution.
  int LeftOutFragments(const std::string& pool) const;
  // After a restart, which may have come between a commit and the storing of its counts: these
  // pools contributed to a commit, and what each reports next counts.
  void ContributedAtNextReport(const std::vector<std::string>& pools);

  // Whether a commit is known. After a restart none is until the job's store is open.
  bool HasCommits() const;
  // The pool begins, or begins again, with this data. Returns in words how it differs from what the
  // pool began with before; later starts are compared with this one. Empty: it does not differ, or
  // that is not known.
  // Warnings about that data are kept: those of any of its ranks, one of each kind.
  // `unit`: what data is counted in (ModelKind::unit_name).
  std::string BeginWithData(const std::string& pool, const v1::DataSummary& data,
                            absl::string_view unit = "tokens");
  // Those of `data` that are not kept for the pool yet. Call it before BeginWithData.
  std::vector<v1::DataWarning> NewWarnings(const std::string& pool,
                                           const v1::DataSummary& data) const;
  // The data with which the pool began, without warnings. Empty: not known.
  v1::DataSummary DataOf(const std::string& pool) const;

  // The newest version that every fragment has; -1 if not all are seeded.
  int64_t WholeVersion() const;
  // Whether these parameters were evaluated already: the outer ones of this version, or (`pool` is
  // not empty) the pool's own at this version or a later one. What is kept of evaluations is
  // bounded by the versions that are committed, since each is taken once.
  bool WasEvaluated(const std::string& pool, int64_t version) const;
  // Whether this pool may report on the outer parameters of this version: a commit asked it to
  // evaluate them, or an earlier version, if no commit asks another pool for this one (a pool that
  // began again may hold a later version than the one that it was asked for). Who was asked before
  // a restart is not kept: of a version of that time every pool may.
  bool MayEvaluate(const std::string& pool, int64_t version) const;
  // Where every pool evaluates the outer parameters: whether this one has, at this version or a
  // later one; and that its report was taken.
  bool WasEvaluatedAt(const std::string& site, int64_t version) const;
  void AnsweredAt(const std::string& site, int64_t version);
  // Of the outer parameters, the first evaluation of a step counts, or the first of each site; the
  // loss of the step is then that over the examples of all that have come. For each pool, the
  // newest evaluation of its own parameters is kept, and a curve of all.
  void AddEvaluation(const EvaluationRecord& evaluation);
  v1::EvalLoss EvaluationLoss() const;
  bool HasFinalEvaluation() const;
  // The newest evaluation of that pool's own parameters, or of the outer ones on its data, or null.
  const EvaluationRecord* PoolEvaluation(const std::string& pool) const;
  const EvaluationRecord* SiteEvaluation(const std::string& site) const;
  // What the sites found at the newest steps, by step, the final evaluation last; then by site.
  using Sites = std::map<std::pair<int64_t, bool>, std::map<std::string, EvaluationRecord>>;
  const Sites& sites() const { return sites_; }

  // Sets evaluations and pool_evaluations, which have a bounded number of points.
  void FillEvaluations(v1::JobDetail* detail) const;

  // Sets the newest published commit of its fragment.
  void SetCommit(CommitRecord commit);
  // A pool's report on the outer parameters of this version was taken: it is asked for no version
  // until this one any more, and the version is evaluated.
  void Answered(const std::string& pool, int64_t version);
  const std::optional<CommitRecord>& commit(int fragment) const { return commits_[fragment]; }

  // Made when the job began to train; without what is measured. Empty: none was made.
  const std::optional<v1::ForecastCheck>& forecast() const { return forecast_; }
  void SetForecast(v1::ForecastCheck check) { forecast_ = std::move(check); }

  // For the database: the counts of pools, which continue after a restart, and the forecast.
  void Save(store::v1::JobCounters* counters) const;
  void Restore(const store::v1::JobCounters& counters);

 private:
  std::map<std::string, PoolHistory> pools_;
  // See ContributedAtNextReport.
  std::set<std::string> uncounted_;
  // By step. The final one comes after others of its step.
  std::map<std::pair<int64_t, bool>, double> losses_;
  // The versions of these losses without the final one. Pools take turns, so they may come in
  // another order.
  std::set<int64_t> evaluated_;
  // The pools that were asked to evaluate the outer parameters, by version, and did not answer yet.
  std::map<int64_t, std::string> asked_;
  // Who was asked for versions until this one, before a restart, is not known.
  int64_t asked_unknown_until_ = 0;
  // The metrics of the last loss.
  std::vector<NamedValue> metrics_;
  void AddSite(const EvaluationRecord& evaluation);
  Sites sites_;
  std::map<std::string, EvaluationRecord> newest_of_site_;
  // The newest version that a site has reported on.
  std::map<std::string, int64_t> answered_at_;
  struct PoolEvaluations {
    EvaluationRecord newest;
    int64_t version = 0;
    LossCurve losses;
  };
  std::map<std::string, PoolEvaluations> pool_evaluations_;
  std::vector<std::optional<CommitRecord>> commits_;
  std::optional<v1::ForecastCheck> forecast_;
};

// compute / (compute + exposed wait + sync). Empty: it has done nothing yet.
std::optional<double> UtilizationOf(const v1::PoolProgress& pool);
// Reads what Save made, also that of earlier versions of the program. Empty if it does not parse.
store::v1::JobCounters ParseCounters(const std::string& bytes);

}  // namespace longhaul::coordinator
