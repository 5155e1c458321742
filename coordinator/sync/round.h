// One synchronisation of one fragment: which pools contributed, and whether it is time to apply it.
// Lockstep: every live, ready pool that owes the round, and does not drain before it, must have
// contributed. The contribution of a pool that is lost later is kept: it counts, whole and once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/schedule/round_kind.h"
#include "coordinator/sync/participants.h"

namespace longhaul {

enum class RoundVerdict {
  // Contributions are missing, or no pool is ready.
  kWait,
  // All awaited contributions are here.
  kApply,
  // No pool owes the round or contributed to it, but some ready pool will train beyond it.
  kSkip,
};

// Externally synchronised.
class Round {
 public:
  Round(int64_t version, RoundKind kind, int64_t push_step)
      : version_(version), kind_(kind), push_step_(push_step) {}

  int64_t version() const { return version_; }
  RoundKind kind() const { return kind_; }
  int64_t push_step() const { return push_step_; }
  bool opened() const { return !contributors_.empty(); }
  absl::Time opened_at() const { return opened_at_; }
  bool Has(int ordinal) const { return contributors_.contains(ordinal); }
  // The incarnation that contributed, by ordinal.
  const std::map<int, std::string>& contributors() const { return contributors_; }

  // Requires !Has(ordinal) and !applying().
  void Add(int ordinal, std::string incarnation, absl::Time now);
  // Removes the contribution of an earlier incarnation of the pool. Requires !applying().
  void Remove(int ordinal);

  RoundVerdict Decide(const Participants& participants) const;
  // Ordinals of the pools that still owe a contribution and have this presence: kLive for those
  // that are ready, or kLost.
  std::vector<int> Owing(const Participants& participants, Presence presence) const;

  // True from kApply or kSkip until the commit is durable. Meanwhile no contribution is taken.
  bool applying() const { return applying_; }
  void Close() { applying_ = true; }

 private:
  int64_t version_;
  RoundKind kind_;
  int64_t push_step_;
  std::map<int, std::string> contributors_;
  absl::Time opened_at_;
  bool applying_ = false;
};

}  // namespace longhaul
