// Checks a simulated run while it runs. It keeps its own records: what each pool contributed, which
// versions became durable, what was promised to whom. It keeps the first violation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/io/filesystem.h"
#include "coordinator/core/decision.h"
#include "coordinator/core/view.h"
#include "coordinator/store/meta_store.h"
#include "longhaul/v1/checkpoint.pb.h"
#include "longhaul/v1/job.pb.h"
#include "tests/simulation/model.h"

namespace longhaul::simulation {

// One rank of one incarnation of a pool that works on a job.
struct RankId {
  std::string job, pool, incarnation;
  int rank = 0, ranks = 1;
  bool Owns(int word) const { return word % ranks == rank; }
};

// A version in the coordinator's store.
struct Commit {
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  std::vector<std::string> pools;
  Words parameters = {};
  // The incarnations of the pools, and the contributions that were left out: pool and incarnation.
  std::vector<std::string> incarnations = {};
  std::vector<std::pair<std::string, std::string>> left_out = {};
};

class Checker {
 public:
  // Invariant 1: a rank's bytes of a version are those that the coordinator committed.
  void Holds(const RankId& who, int fragment, int64_t version, const Words& parameters);

  // Invariant 2. A push begins, with these words and the error feedback that was added to them.
  void Pushes(const RankId& who, int fragment, int64_t version, const Words& words,
              const Words& residual, const Words& error, int64_t weight);
  // The rank pulled the fragment whole, so its error feedback begins at zero.
  void Loaded(const RankId& who, int fragment);
  // A version was merged. Before that, error feedback has not changed. After it, error feedback is
  // the residual of the push that counted, if one did.
  void Merged(const RankId& who, int fragment, int64_t version, const Words& before,
              const Words& after);
  // A commit became durable. Also checks invariant 4: no fragment is seeded twice.
  void Committed(const std::string& job, int fragment, const Commit& commit, const OuterRule& rule);
  // The commit leaves out those contributions that guard.outer should leave out, by what was
  // pushed: their norms, and those of earlier rounds. `quorum`: 0 in lockstep.
  void LeavesOut(const std::string& job, int fragment, const Commit& commit,
                 const v1::GuardSpec& guard, int quorum);
  bool Knows(const std::string& job, int fragment, int64_t version) const;

  // The submitted job begins with this checkpoint, or with these parameters of its fragments.
  void Begins(const std::string& job, const v1::CheckpointManifest& checkpoint);
  void Begins(const std::string& job, std::vector<Words> parameters);

  // Invariant 3: what a caller was told.
  void Acknowledged(const std::string& job) { acknowledged_.insert(job); }
  void Promised(const std::string& job, int64_t step) { promised_[job].insert(step); }
  // A user asks for it. It takes effect when the call is answered, or earlier.
  void MayBeCancelled(const std::string& job) { cancelled_.insert(job); }
  // A user asks for it, likewise.
  void MayBePaused(const std::string& job) { may_be_paused_.insert(job); }
  void MayBeResumed(const std::string& job) { may_be_resumed_.insert(job); }
  // A user was told that the job is paused, and nobody resumes it. So it becomes PAUSED, or ends.
  void StaysPaused(const std::string& job) { stays_paused_.insert(job); }
  // Evaluations of jobs of this name are infinite from some version on, and this is what their spec
  // wants. No other job is paused or failed by its guard.
  void MayDiverge(const std::string& name, v1::DivergenceAction action) {
    may_diverge_[name] = action;
  }
  // Whether it may rest so.
  bool RestsPaused(const std::string& job, MetaStore& meta) const;
  // Whether it is shown as PAUSED. Then it stays so until a user resumes it, gets no pool, and
  // nothing is committed.
  void Shown(const std::string& job, bool paused);
  void MayBeDeleted(const std::string& job) { may_be_deleted_.insert(job); }
  void Deleted(const std::string& job) { deleted_.insert(job); }
  // The record of it is being made durable. A user may want it; otherwise the job ended `keep` ago.
  void Deletes(const std::string& job, MetaStore& meta, absl::Time now, absl::Duration keep);
  void Published(const std::string& job, int fragment, int64_t version);
  void Placed(const std::string& job, int ordinal, const std::string& pool);
  // A rank is admitted. All of one incarnation begin the job after the same step.
  void Admitted(const coordinator::AdmitRank& rank);
  void Ended(const std::string& job, JobState state);
  // No pool was there that could do it.
  void MayFail(const std::string& job) { may_fail_.insert(job); }
  void Restarted(MetaStore& meta);
  // The database is lost, and the jobs' folders were adopted into this one. What only the database
  // had is forgotten; a job is what its folder says, which may be one step behind.
  void Adopted(MetaStore& meta, FileSystem& disk);
  // The contents of a store at this moment.
  void Opened(const std::string& job, int fragment, int64_t version);

  // A round is applied only with the contributions of all live pools that take part in it, or of as
  // many as `quorum` (0: lockstep, or every pool can keep to the grace). `view`: the pools when the
  // round began.
  void Applies(const coordinator::JobView& view, int fragment, int64_t version, RoundKind kind,
               const std::vector<std::string>& pools, int64_t push_step, int quorum);
  // Evaluations of the outer parameters. A pool reports one; the result is its loss, which no other
  // report has.
  double Reports(const std::string& pool);
  // A commit asks the pool to evaluate this version.
  void Asks(const std::string& job, int64_t version, const std::string& pool);
  // One is durable. `step`: that of its version. It is the first of its version, and of a pool that
  // was asked for it; see JobProgress::MayEvaluate for the exceptions.
  void Evaluated(const EvaluationRecord& evaluation, int64_t step);

  // Liveness: every job has ended as it should. Without faults, every job was also evaluated.
  // Invariant 5: promised checkpoints exist, and each has what was committed. A deleted job has no
  // files.
  void Finally(MetaStore& meta, FileSystem& disk, bool faulty);
  // Whether the run is complete: all jobs have ended, and deleted jobs have no files.
  bool Settled(MetaStore& meta, FileSystem& disk) const;
  // Files of the job stay damaged, so it cannot end with a checkpoint.
  void StaysDamaged(const std::string& job) { damaged_.insert(job); }

  void Violation(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }
  int64_t commits() const { return commits_; }

 private:
  // Job, fragment.
  using FragmentKey = std::pair<std::string, int>;
  // Job, pool, incarnation, fragment.
  using PoolKey = std::tuple<std::string, std::string, std::string, int>;
  struct Contribution {
    Words words = {}, residual = {};
    int64_t weight = 1;
  };
  struct Version {
    Outer outer;
    // The contributions that counted: pool and incarnation.
    std::vector<std::pair<std::string, std::string>> contributors;
  };

  // The database does not have it any more, and need not.
  void Forget(const std::string& job);
  // Whether the job is owed a last checkpoint that is not there.
  bool LacksLast(const JobRecord& job, FileSystem& disk) const;
  // -1: no value was told.
  int OrdinalOf(const std::string& job, const std::string& pool) const;
  std::optional<Version> Explain(const FragmentKey& key, const Commit& commit,
                                 const OuterRule& rule) const;
  // What a job that begins with a checkpoint is seeded with.
  std::optional<Version> Beginning(const FragmentKey& key, const Commit& commit) const;
  void Completed(const JobRecord& job, MetaStore& meta, FileSystem& disk, bool faulty);
  // What is stored are the evaluations that became durable first.
  void CheckEvaluations(const std::string& job, const std::vector<EvaluationRecord>& stored);
  void CheckCheckpoint(const v1::CheckpointManifest& checkpoint, FileSystem& disk,
                       const std::string& folder);

  // By version.
  std::map<FragmentKey, std::vector<Version>> history_;
  // Also by version.
  std::map<std::pair<PoolKey, int64_t>, Contribution> contributions_;
  std::map<PoolKey, Words> errors_;
  // The norm in the middle of each round with an outer step, in jobs with guard.outer.
  std::map<FragmentKey, std::vector<double>> middles_;
  // (job, ordinal) -> pool.
  std::map<std::pair<std::string, int>, std::string> places_;
  // (job, pool, incarnation) -> the step after which its ranks begin.
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> starts_;
  std::map<FragmentKey, int64_t> published_;
  std::map<std::string, JobState> ended_;
  std::set<std::string> acknowledged_, cancelled_, may_be_paused_, may_be_resumed_, paused_,
      may_fail_, may_be_deleted_, deleted_, damaged_, stays_paused_;
  std::map<std::string, v1::DivergenceAction> may_diverge_;
  // Jobs that were cancelled or failed when every fragment was synchronised, by what was published.
  std::set<std::string> owed_last_;
  // Inner steps, by job.
  std::map<std::string, std::set<int64_t>> promised_;
  std::map<std::string, std::function<Words(int fragment)>> beginnings_;
  // The pool of each report of an evaluation. The loss is its place here, from 1.
  std::vector<std::string> reports_;
  // By job and version: the pools that commits asked; the loss that became durable.
  std::map<std::pair<std::string, int64_t>, std::set<std::string>> asked_;
  std::map<std::pair<std::string, int64_t>, double> evaluated_;
  // By job and pool: the newest version of which its report became durable.
  std::map<std::pair<std::string, std::string>, int64_t> answered_;
  // By job: a restart may have forgotten who was asked for versions until this one.
  std::map<std::string, int64_t> asked_unknown_until_;
  std::optional<std::string> violation_;
  int64_t commits_ = 0;
};

}  // namespace longhaul::simulation
