// Judges a simulated run while it goes on, by its own books: what each pool really contributed,
// which versions became durable, what was promised to whom. The first violation is kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/io/filesystem.h"
#include "coordinator/core/view.h"
#include "coordinator/store/meta_store.h"
#include "longhaul/v1/checkpoint.pb.h"
#include "tests/simulation/model.h"

namespace longhaul::simulation {

// One rank of one incarnation of a pool, at work on a job.
struct RankId {
  std::string job, pool, incarnation;
  int rank = 0, ranks = 1;
  bool Owns(int word) const { return word % ranks == rank; }
};

// A version as the coordinator's store has it.
struct Commit {
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  std::vector<std::string> pools;
  Words parameters = {};
};

class Checker {
 public:
  // Invariant 1: what a rank holds as a version is what the coordinator committed as that version.
  void Holds(const RankId& who, int fragment, int64_t version, const Words& parameters);

  // Invariant 2. A push begins: its words, and the error feedback that went into them.
  void Pushes(const RankId& who, int fragment, int64_t version, const Words& words,
              const Words& residual, const Words& error);
  // A version took effect: until then error feedback was what it was; now it is the residual of the
  // push that counted, if any.
  void Merged(const RankId& who, int fragment, int64_t version, const Words& before,
              const Words& after);
  // A commit became durable. Also invariant 4: nothing is seeded twice.
  void Committed(const std::string& job, int fragment, const Commit& commit, const OuterRule& rule);
  bool Knows(const std::string& job, int fragment, int64_t version) const;

  // A job that is submitted begins with this checkpoint.
  void Begins(const std::string& job, const v1::CheckpointManifest& checkpoint);

  // Invariant 3: what was said to somebody.
  void Acknowledged(const std::string& job) { acknowledged_.insert(job); }
  void Promised(const std::string& job, int64_t step) { promised_[job].insert(step); }
  // A user wants it; it is so when the call is answered, or before.
  void MayBeCancelled(const std::string& job) { cancelled_.insert(job); }
  void MayBeDeleted(const std::string& job) { may_be_deleted_.insert(job); }
  void Deleted(const std::string& job) { deleted_.insert(job); }
  void Published(const std::string& job, int fragment, int64_t version);
  void Placed(const std::string& job, int ordinal, const std::string& pool);
  void Ended(const std::string& job, JobState state);
  void Restarted(MetaStore& meta);
  // What a store holds when it is looked at.
  void Opened(const std::string& job, int fragment, int64_t version);

  // Lockstep: a round goes on only with everybody who is there and owes it. `view`: of the moment at
  // which the round was begun.
  void Applies(const coordinator::JobView& view, int fragment, int64_t version, RoundKind kind,
               const std::vector<std::string>& pools, int64_t push_step);
  // Liveness: every job has ended as it should; without faults every one is also evaluated.
  // Invariant 5: checkpoints that were promised are there, and each holds what was committed. Of a
  // deleted job nothing is left.
  void Finally(MetaStore& meta, FileSystem& disk, bool faulty);
  // Nothing is to come any more: jobs have ended, and the files of deleted ones are gone.
  bool Settled(MetaStore& meta, FileSystem& disk) const;

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
  };
  struct Version {
    Outer outer;
    // Those that counted: pool and incarnation.
    std::vector<std::pair<std::string, std::string>> contributors;
  };

  // -1: none was told.
  int OrdinalOf(const std::string& job, const std::string& pool) const;
  std::optional<Version> Explain(const FragmentKey& key, const Commit& commit,
                                 const OuterRule& rule) const;
  // The seed of a job that begins with a checkpoint.
  std::optional<Version> Beginning(const FragmentKey& key, const Commit& commit) const;
  void Completed(const JobRecord& job, MetaStore& meta, FileSystem& disk, bool faulty);
  void CheckCheckpoint(const v1::CheckpointManifest& checkpoint, FileSystem& disk,
                       const std::string& folder);

  // By version.
  std::map<FragmentKey, std::vector<Version>> history_;
  // By version, too.
  std::map<std::pair<PoolKey, int64_t>, Contribution> contributions_;
  std::map<PoolKey, Words> errors_;
  // (job, ordinal) -> pool.
  std::map<std::pair<std::string, int>, std::string> places_;
  std::map<FragmentKey, int64_t> published_;
  std::map<std::string, JobState> ended_;
  std::set<std::string> acknowledged_, cancelled_, may_be_deleted_, deleted_;
  // By job: inner steps.
  std::map<std::string, std::set<int64_t>> promised_;
  std::map<std::string, v1::CheckpointManifest> beginnings_;
  std::optional<std::string> violation_;
  int64_t commits_ = 0;
};

}  // namespace longhaul::simulation
