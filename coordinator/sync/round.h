// One synchronisation of one fragment: who contributed, and whether it is time to apply. Lockstep:
// every live, ready pool that owes the round, and does not drain before it, must have contributed.
// Contributions are kept when their pool is lost: they count, whole and once.
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
  // For contributions, or for anybody to be there.
  kWait,
  // Everything that is awaited is here.
  kApply,
  // Pools are there that go on beyond this round, but none of them owes it, and nobody contributed.
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
  // Another incarnation of the pool will contribute instead. Requires !applying().
  void Remove(int ordinal);

  RoundVerdict Decide(const Participants& participants) const;
  // Ordinals of the pools that owe a contribution: those that are live and ready, or those that are
  // lost.
  std::vector<int> Owing(const Participants& participants, Presence presence) const;

  // From kApply or kSkip until the commit is durable nothing is taken any more.
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
