// The exchange of one job: its pools, and for each fragment the committed version and the round in
// progress. Decides what is accepted, when a round is applied, where a newcomer begins, and who
// seeds.
//
// Externally synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/sync/participants.h"
#include "coordinator/sync/round.h"
#include "coordinator/sync/round_plan.h"

namespace longhaul {

// What becomes of a contribution. All but the first two refuse it.
enum class ContributionVerdict {
  kAccept,
  kRepeated,  // It is here already; it counts once.
  kFragmentUnknown,
  kNotParticipant,   // No pool of this job, or its place is gone.
  kNotLive,          // Its lease ended; it may come back.
  kNotReady,         // None of its ranks opened WatchPlan.
  kVersionMismatch,  // The version is not the one that this round makes.
  kKindMismatch,
  kNotSeeder,
  kRoundClosed,
  kNotRequired,  // The pool began after this round's push.
};

// A round to be applied. Pools by ordinal, ascending.
struct DueRound {
  int fragment = 0;
  int64_t version = 0;
  RoundKind kind = RoundKind::kOuter;
  // With the incarnation that contributed.
  std::map<int, std::string> contributors;
  // Lost pools that owed the round: now they are out.
  std::vector<int> missed;
};

struct FragmentProgress {
  int64_t version = -1;  // Committed; -1: not seeded.
  RoundKind kind = RoundKind::kSeed;
  std::string evaluator;          // Of that commit, or of the one that is being applied.
  std::vector<int> contributors;  // Of that commit.
  std::optional<Round> round;     // Makes version + 1. None after the last.
  bool changed = true;            // Since Due looked at it.
};

class Exchange {
 public:
  explicit Exchange(RoundPlan plan);

  const RoundPlan& plan() const { return plan_; }
  Participants& participants() { return participants_; }
  const Participants& participants() const { return participants_; }
  const FragmentProgress& fragment(int fragment) const { return fragments_[fragment]; }

  // The store was opened: the newest durable commit, and the contributions to the next round that
  // are in the log, by ordinal, with the incarnation that made them.
  void Restore(int fragment, int64_t version, std::string evaluator,
               const std::map<int, std::string>& contributors, absl::Time now);

  ContributionVerdict Judge(const Participant* pool, int fragment, int64_t version,
                            RoundKind kind) const;
  // Requires Judge(...) == kAccept.
  void Contribute(const Participant& pool, int fragment, absl::Time now);
  // The pool begins anew: what an earlier incarnation contributed to rounds that this one owes
  // makes way for its own.
  void BeginAnew(const Participant& pool);
  // Pools came, went or became ready: every round is looked at again.
  void PoolsChanged();
  // Closes and returns the rounds that are to be applied; marks the lost pools that owed them
  // kMissed.
  std::vector<DueRound> Due();
  // Closes and returns the seeds that are not committed and not being applied: they come from
  // nobody.
  std::vector<DueRound> CloseSeeds();
  void SetEvaluator(int fragment, std::string pool) {
    fragments_[fragment].evaluator = std::move(pool);
  }
  // False: that round is not being applied.
  bool Commit(int fragment, int64_t version);

  // The live, ready pool that is asked for the initial parameters: the one that was asked, else
  // that of the lowest ordinal. Nothing if nobody is ready.
  const Participant* PickSeeder();
  const std::optional<int>& seeder() const { return seeder_; }

  // Where a pool that becomes ready now begins. Nothing: it would come too late to contribute.
  std::optional<int64_t> NewcomerStart() const;

  bool Seeded() const;    // Every fragment has a version.
  bool Complete() const;  // Every fragment has its last version.
  // The cycle that is full once this version is committed, counting the rounds that are being
  // applied. Nothing if none.
  std::optional<int64_t> CompletesCycle(int fragment, int64_t version) const;
  bool CompletesAll(int fragment, int64_t version) const;

 private:
  void OpenNext(FragmentProgress& fragment, int index);
  int64_t Approaching(int fragment) const;  // Its version, or the one that is being applied.

  RoundPlan plan_;
  Participants participants_;
  std::vector<FragmentProgress> fragments_;
  std::optional<int> seeder_;
};

}  // namespace longhaul
