// Which pools are alive and until when: names, incarnations, leases. Knows nothing of jobs.
//
// One incarnation at a time has a name: the one that has a lease. A pool whose lease ended is
// remembered as lost, until another incarnation takes its name or newer lost pools push it out.
//
// Externally synchronised. `now` must not go backwards.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace longhaul {

// What a pool says about itself when it joins.
struct PoolTraits {
  int ranks = 0;
  bool cuda = false;
  std::set<std::string> capabilities;
  bool operator==(const PoolTraits&) const = default;
};

struct Member {
  std::string pool, incarnation;
  PoolTraits traits;
  absl::Time lease_end;
  bool live = false;
  // False if the pool was restored and has not joined since.
  bool joined = false;
  // The pool takes no new work.
  bool draining = false;
  // The order of waiting for work: the lower, the earlier.
  int64_t turn = 0;
  // Used by Membership: its place in the order of leases.
  std::list<Member*>::iterator lease = {};
};

class Membership {
 public:
  struct Options {
    absl::Duration lease;
    // How many pools may be live.
    int members_max = 1;
    // How many lost pools are remembered.
    int lost_max = 1;
  };
  explicit Membership(const Options& options) : options_(options) {}

  // Grants a lease, or renews the lease of the same incarnation.
  //   ALREADY_EXISTS      another incarnation has the name and a lease
  //   RESOURCE_EXHAUSTED  members_max pools are live
  absl::Status Join(std::string_view pool, std::string_view incarnation, PoolTraits traits,
                    absl::Time now);
  // Gives a pool that was alive before a restart a lease of grace. Returns false if another
  // incarnation has the name.
  bool Restore(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Extends the lease.
  //   NOT_FOUND  never joined, lease ended, or restored and not joined again
  //   ABORTED    another incarnation has the name and a lease
  absl::Status Renew(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the lease of a pool, as if it had run out.
  void Lose(std::string_view pool);
  // Ends the lease at the pool's own wish. Returns false if that incarnation has no lease.
  bool Leave(std::string_view pool, std::string_view incarnation);
  // Ends the leases that ran out at or before `now`, the earliest first. Returns their members.
  std::vector<Member> Expire(absl::Time now);
  // Puts the pool at the end of the queue for work.
  void Requeue(std::string_view pool);
  // The pool takes no new work until it joins again.
  void Drain(std::string_view pool);

  const Member* Find(std::string_view pool) const;
  bool IsLive(std::string_view pool, std::string_view incarnation) const;
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }
  // InfiniteFuture if no pool is live.
  absl::Time next_expiry() const;

 private:
  Member& Add(std::string_view pool);
  void Extend(Member& member, absl::Time now);
  void Kill(Member& member);
  void ForgetLost();

  Options options_;
  std::map<std::string, Member, std::less<>> members_;
  // The live members and the lost ones, in the order in which their leases end. All leases have the
  // same length, so one that begins now ends last.
  std::list<Member*> leases_, lost_;
  int64_t next_turn_ = 0;
};

}  // namespace longhaul
