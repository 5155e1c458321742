// Who is alive and until when: names, incarnations, leases. Knows nothing of jobs.
//
// A name is held by one incarnation at a time: the one that has a lease. A pool whose lease ended
// is remembered as lost until another incarnation takes the name, or newer losses push it out.
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

// What a pool says of itself when it joins.
struct PoolTraits {
  int ranks = 0;
  bool cuda = false;
  std::set<std::string> capabilities;
};

struct Member {
  std::string pool, incarnation;
  PoolTraits traits;
  absl::Time lease_end;
  bool live = false;
  // False: restored, and not heard of since.
  bool joined = false;
  // It takes no new work.
  bool draining = false;
  // Order of waiting for work: the lower, the earlier.
  int64_t turn = 0;
  // Membership's own: where it is in the order of leases.
  std::list<Member*>::iterator lease = {};
};

class Membership {
 public:
  struct Options {
    absl::Duration lease;
    // Live ones.
    int members_max = 1;
    // Lost ones that are remembered.
    int lost_max = 1;
  };
  explicit Membership(const Options& options) : options_(options) {}

  // Grants a lease, or renews that of the same incarnation.
  //   ALREADY_EXISTS      another incarnation has the name and a lease
  //   RESOURCE_EXHAUSTED  members_max pools are live
  absl::Status Join(std::string_view pool, std::string_view incarnation, PoolTraits traits,
                    absl::Time now);
  // Gives a pool that was alive before a restart a lease of grace. False: another incarnation has
  // the name.
  bool Restore(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Extends the lease.
  //   NOT_FOUND  never joined, lease ended, or restored and not joined again
  //   ABORTED    another incarnation has the name and a lease
  absl::Status Renew(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the lease of a pool, as if it had run out.
  void Lose(std::string_view pool);
  // False: that incarnation has no lease.
  bool Leave(std::string_view pool, std::string_view incarnation);
  // Ends the leases that ran out at or before `now`, the earliest first.
  std::vector<Member> Expire(absl::Time now);
  // Puts the pool at the end of the queue for work.
  void Requeue(std::string_view pool);
  // It takes no new work until it joins again.
  void Drain(std::string_view pool);

  const Member* Find(std::string_view pool) const;
  bool IsLive(std::string_view pool, std::string_view incarnation) const;
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }
  // InfiniteFuture: nobody is live.
  absl::Time next_expiry() const;

 private:
  Member& Add(std::string_view pool);
  void Extend(Member& member, absl::Time now);
  void Kill(Member& member);
  void ForgetLost();

  Options options_;
  std::map<std::string, Member, std::less<>> members_;
  // The live members, and the lost ones, by the end of their leases: all leases are as long, so
  // one that begins now ends last.
  std::list<Member*> leases_, lost_;
  int64_t next_turn_ = 0;
};

}  // namespace longhaul
