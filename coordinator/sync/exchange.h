// The exchange of one job: its pools, and for each fragment the committed version and the round in
// progress. Decides which contributions are accepted, when a round is applied, where a new pool
// begins, and which pool seeds.
//
// Externally synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/sync/participants.h"
#include "coordinator/sync/round.h"
#include "coordinator/sync/round_plan.h"

namespace longhaul {

// The decision about a contribution. All but the first two refuse it.
enum class ContributionVerdict {
  kAccept,
  // The contribution is here already. It counts once.
  kRepeated,
  kFragmentUnknown,
  // The pool is not of this job, or it lost its place.
  kNotParticipant,
  // The pool's lease ended. The pool may come back.
  kNotLive,
  // No rank of the pool has opened WatchPlan.
  kNotReady,
  // The round makes another version.
  kVersionMismatch,
  kKindMismatch,
  kNotSeeder,
  kRoundClosed,
  // The pool began after this round's push.
  kNotRequired,
};

// A round to be applied. Pools are given by ordinal, ascending.
struct DueRound {
  RoundId round;
  // The incarnation that contributed, by ordinal.
  std::map<int, std::string> contributors;
  // Lockstep: lost pools that owed the round. They are out of the job from now on.
  std::vector<int> missed;
  // Quorum: live pools that owed the round. It goes on without them.
  std::vector<int> late;
};

struct FragmentProgress {
  // The committed version; -1: not seeded.
  int64_t version = -1;
  RoundKind kind = RoundKind::kSeed;
  // The evaluator of that commit, or of the one that is being applied.
  std::string evaluator;
  // The pools that contributed to that commit.
  std::vector<int> contributors;
  // The round that makes version + 1. Empty after the last one.
  std::optional<Round> round;
  // Something changed since Due looked at the fragment.
  bool changed = true;
};

class Exchange {
 public:
  Exchange(RoundPlan plan, const RoundPolicy& policy);

  const RoundPlan& plan() const { return plan_; }
  const RoundPolicy& policy() const { return policy_; }
  Participants& participants() { return participants_; }
  const Participants& participants() const { return participants_; }
  const FragmentProgress& fragment(int fragment) const { return fragments_[fragment]; }

  // Call when the store was opened. `version` is the newest durable commit. `contributors` are
  // those of the next round whose contributions are in the log: the incarnation by ordinal.
  void Restore(int fragment, int64_t version, std::string evaluator,
               const std::map<int, std::string>& contributors, absl::Time now);

  ContributionVerdict Judge(const Participant* pool, const RoundId& asked) const;
  // Requires Judge(...) == kAccept.
  void Contribute(const Participant& pool, int fragment, absl::Time now);
  // The pool started again. Contributions of its earlier incarnation to rounds that the new one
  // owes are dropped, since the new one will make its own.
  void PoolRestarted(const Participant& pool);
  // The contribution of this pool is damaged, so the round that was to be applied takes
  // contributions again. Returns the live pools of a quorum that owe it one: they may have been
  // refused while it was closed, and then go on without it. Requires a round of the fragment. For
  // the initial parameters a pool is asked anew.
  std::vector<int> Withdraw(int fragment, int ordinal);
  // Pools came, left or became ready: Due will look at every round again.
  void PoolsChanged();
  // Closes and returns the rounds that are to be applied. Lost pools that owed one are named; the
  // caller makes them kMissed.
  std::vector<DueRound> Due(absl::Time now);
  // The rounds that were called since the last time and still wait for pools.
  std::vector<RoundId> TakeCalls();
  // When the first grace is over. InfiniteFuture: no round is called.
  absl::Time NextDue() const;
  // Closes and returns the seeds that are neither committed nor being applied. No pool contributes
  // to them.
  std::vector<DueRound> CloseSeeds();
  void SetEvaluator(int fragment, std::string pool) {
    fragments_[fragment].evaluator = std::move(pool);
  }
  // Returns false if that round is not being applied. `left_out`: pools whose contributions do not
  // count.
  bool Commit(int fragment, int64_t version, const std::set<int>& left_out = {});

  // The live, ready pool that is asked for the initial parameters: the one that was asked before,
  // else the one with the lowest ordinal. Null if no pool is ready.
  const Participant* PickSeeder();
  const std::optional<int>& seeder() const { return seeder_; }

  // The step at which a pool begins that becomes ready now. Empty if it would come too late to
  // contribute.
  std::optional<int64_t> NewcomerStart() const;

  // The newest version that every fragment has; -1 if not all are seeded.
  int64_t WholeVersion() const;
  // Every fragment has a version.
  bool Seeded() const { return WholeVersion() >= 0; }
  // Every fragment has its last version.
  bool Complete() const;
  // The cycle that is complete once this version is committed, or nothing. Rounds that are being
  // applied count as committed.
  std::optional<int64_t> CompletesCycle(int fragment, int64_t version) const;
  bool CompletesAll(int fragment, int64_t version) const;

 private:
  void OpenNext(FragmentProgress& fragment, int index);
  // The fragment's version, or the one that is being applied.
  int64_t Approaching(int fragment) const;

  RoundPlan plan_;
  RoundPolicy policy_;
  Participants participants_;
  std::vector<FragmentProgress> fragments_;
  std::optional<int> seeder_;
};

}  // namespace longhaul
