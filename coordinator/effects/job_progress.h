// What a job has achieved, as its pools told and its commits showed: the material of GetJob beside
// the core's view.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/store/meta_records.h"
#include "coordinator/store/round_records.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

// One pool's part. A pool that begins anew goes on counting where it stopped.
struct PoolHistory {
  // Sums of the times before in which it trained; inner_step: the steps that it did then.
  v1::PoolProgress earlier;
  // As it told last.
  v1::PoolProgress current;
  // Which time in the job this is: the incarnation, and the step at which it began.
  std::string incarnation;
  int64_t start_step = 0;

  // Inner steps of all times.
  int64_t steps() const;
  // `current`, with the sums of all times.
  v1::PoolProgress Total() const;
};

// Owner thread.
class JobProgress {
 public:
  explicit JobProgress(size_t fragments) : commits_(fragments) {}

  // A heartbeat's report. Numbers that cannot be are taken as zero, counts beyond 2^50 as that.
  void Report(const std::string& pool, const std::string& incarnation, int64_t start_step,
              v1::PoolProgress progress);
  const std::map<std::string, PoolHistory>& pools() const { return pools_; }
  // A round that these pools contributed to was committed: what they reported until now counts.
  void Contributed(const std::vector<std::string>& pools);

  // A repeated report of the same evaluation replaces the earlier one. Of pools' own parameters the newest is kept.
  void AddEvaluation(const EvaluationRecord& evaluation);
  v1::EvalLoss EvaluationLoss() const;
  // Of that pool's own parameters. Null: none came.
  const EvaluationRecord* PoolEvaluation(const std::string& pool) const;

  // The newest published commit of each fragment.
  void SetCommit(CommitRecord commit) { commits_[commit.fragment] = std::move(commit); }
  const std::optional<CommitRecord>& commit(int fragment) const { return commits_[fragment]; }

  // For the store: the pools, two entries each, to go on counting after a restart: `earlier`, whose
  // fields without a sum hold the incarnation (pool) and the start step (uplink_nmse); `current`.
  void Save(v1::Job* job) const;
  void Restore(const v1::Job& job);

 private:
  std::map<std::string, PoolHistory> pools_;
  std::map<std::pair<int64_t, bool>, double>
      losses_;                       // By step, the final one after others of its step.
  std::vector<NamedValue> metrics_;  // Of the last of them.
  std::map<std::string, EvaluationRecord> pool_evaluations_;
  std::vector<std::optional<CommitRecord>> commits_;
};

}  // namespace longhaul::coordinator
