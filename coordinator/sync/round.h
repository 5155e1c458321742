// One synchronisation of one fragment: which pools contributed, and whether it is time to apply it.
//
// Lockstep: every live, ready pool that owes the round, and does not drain before it, must have
// contributed. Quorum: the round is called when enough pools have contributed. The others then
// contribute what they have, and the round is applied when all of them did so or its grace is over.
//
// The contribution of a pool that is lost later is kept: it counts, whole and once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/schedule/round_id.h"
#include "common/schedule/round_policy.h"
#include "coordinator/sync/participants.h"

namespace longhaul {

enum class RoundVerdict {
  // Contributions are missing, or no pool is ready.
  kWait,
  // All awaited contributions are here, or the grace is over, or no pool is left that owes one.
  kApply,
  // No pool owes the round or contributed to it, but some ready pool will train beyond it.
  kSkip,
};

// Externally synchronised.
class Round {
 public:
  Round(const RoundId& id, int64_t push_step, const RoundPolicy& policy)
      : id_(id), push_step_(push_step), policy_(policy) {}

  const RoundId& id() const { return id_; }
  int64_t push_step() const { return push_step_; }
  bool opened() const { return !contributors_.empty(); }
  absl::Time opened_at() const { return opened_at_; }
  // The quorum has contributed. Never in lockstep.
  bool called() const { return called_at_ != absl::InfiniteFuture(); }
  // When the grace of a called round is over. InfiniteFuture: the round is not called.
  absl::Time due_at() const { return called_at_ + policy_.grace; }
  // A pool that begins now begins after this round's push.
  bool behind_newcomers() const { return applying_ || (policy_.lockstep() ? opened() : called()); }
  bool Has(int ordinal) const { return contributors_.contains(ordinal); }
  // The incarnation that contributed, by ordinal.
  const std::map<int, std::string>& contributors() const { return contributors_; }

  // Requires !Has(ordinal) and !applying().
  void Add(int ordinal, std::string incarnation, absl::Time now);
  // Removes the contribution of an earlier incarnation of the pool. Requires !applying().
  void Remove(int ordinal);

  // `newcomers_begin`: the step at which a pool begins that becomes ready now. It contributes to
  // rounds with later pushes.
  RoundVerdict Decide(const Participants& participants, absl::Time now,
                      int64_t newcomers_begin) const;
  // Ordinals of the pools that still owe a contribution and have this presence: kLive for those
  // that are ready, or kLost.
  std::vector<int> Owing(const Participants& participants, Presence presence) const;

  // True from kApply or kSkip until the commit is durable. Meanwhile no contribution is taken.
  bool applying() const { return applying_; }
  void Close() { applying_ = true; }
  // It could not be applied. It takes contributions again.
  void Reopen() { applying_ = false; }
  // Returns true once for each call of the round, if it still waits for pools.
  bool TakeCall() { return called() && !applying_ && !std::exchange(call_taken_, true); }

 private:
  // Whether Owing has any. Asked after each contribution of thousands of pools.
  bool IsOwed(const Participants& participants, Presence presence) const;
  // How many ready pools train to this round's push or beyond it.
  int AvailableCount(const Participants& participants) const;

  RoundId id_;
  int64_t push_step_;
  std::map<int, std::string> contributors_;
  RoundPolicy policy_;
  absl::Time opened_at_;
  absl::Time called_at_ = absl::InfiniteFuture();
  bool call_taken_ = false;
  bool applying_ = false;
};

}  // namespace longhaul
