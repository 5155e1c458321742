// The nodes of pools that have several: which are here, their numbers, and when they form a group.
// A group is all nodes of a pool at one time; its ranks train together under one incarnation, and
// end with it. A pool of one node needs none of this: its agent's incarnation is the pool's.
//
//   no group --all nodes are here--> a group --one leaves, is lost or starts anew--> no group
//
// A node keeps its number while it is here, and when it comes again from the same host. Knows
// nothing of jobs.
//
// Externally synchronised. `now` must not go backwards.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/names.h"
#include "coordinator/pool/membership.h"

namespace longhaul {

// What a node's agent says of it.
struct NodeTraits {
  // Of the pool.
  int nodes = 1;
  // Its number, fixed by its user or given before. Nothing: any.
  std::optional<int> number = std::nullopt;
  // Of this node. The pool's are the sum; it has what all of its nodes have.
  PoolTraits traits = {};
  // Its address for the other nodes: a loopback address on all of them, or on none. HOST:PORT of the
  // rendezvous that it serves if it is node 0, and the secret that ranks show there.
  std::string host = {}, rendezvous = {}, token = {};
  // Of its program.
  std::string version = {};

  friend bool operator==(const NodeTraits&, const NodeTraits&) = default;
};

// One node's part of a group.
struct NodePlace {
  int node = 0, nodes = 1;
  // The group. Empty: there is none.
  std::string incarnation;
  // Once all nodes are here. In the order of the nodes: this node's first rank, and all ranks; how
  // many each has; node 0's rendezvous.
  int first_rank = 0, ranks = 0;
  std::vector<int> ranks_of_node;
  std::string rendezvous, token;
  // What is waited for, in words; empty: nothing. `since`: when the last group ended or the first
  // node came.
  std::string missing;
  absl::Time since;
};

struct NodeView {
  int node = 0;
  bool here = false;
  int ranks = 0;
  std::string host;
};

class NodeGroups {
 public:
  struct Options {
    absl::Duration lease;
    int pools_max = 1;
    int ranks_max = kRanksMax;  // Of a group.
  };
  explicit NodeGroups(const Options& options);

  // Gives a node a number and a lease, or renews that of the same incarnation. When it is the last
  // that was missing, the group is formed under `fresh`, a name that was never used. `running`: not
  // empty if its ranks run under this incarnation and that is the pool's still, as after a restart
  // of the coordinator: then this is the group, until a node comes that says otherwise.
  //   INVALID_ARGUMENT     its number is not one of the pool's
  //   FAILED_PRECONDITION  it disagrees with the nodes that are here; the message names both
  //   ALREADY_EXISTS       another agent has that number, or all numbers, and a lease
  //   RESOURCE_EXHAUSTED   pools_max pools, or ranks_max ranks
  absl::Status Join(std::string_view pool, std::string_view incarnation, const NodeTraits& traits,
                    std::string_view running, std::string_view fresh, absl::Time now);
  // NOT_FOUND: it has no lease. ABORTED: another incarnation has its number.
  absl::Status Renew(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the pool's group. False: that incarnation has no lease.
  bool Leave(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the leases that ran out, and the groups of those nodes: their pools.
  std::vector<std::string> Expire(absl::Time now);
  // Ends the group, as when its pool's place was given up; its nodes stay.
  void Break(std::string_view pool, absl::Time now);

  // Whether nodes of the pool are known: all else is about such pools.
  bool Has(std::string_view pool) const { return pools_.find(pool) != pools_.end(); }
  // Nothing: the node has no lease.
  std::optional<NodePlace> PlaceOf(std::string_view pool, std::string_view incarnation) const;
  // The group's incarnation, until the next change. Empty: there is none.
  std::string_view GroupOf(std::string_view pool) const;
  bool Complete(std::string_view pool) const;
  // Of all nodes together. Requires that the pool is complete.
  PoolTraits TraitsOf(std::string_view pool) const;
  // One for each node of the pool: where it is, what it brings.
  std::vector<NodeView> NodesOf(std::string_view pool) const;
  // Pools without a group: the nodes that are not here, in words, and since when some are missing.
  struct Forming {
    std::string pool, missing;
    absl::Time since;
  };
  std::vector<Forming> forming() const;
  // InfiniteFuture: no node is here.
  absl::Time next_expiry() const { return leases_.next_expiry(); }

 private:
  struct Node {
    std::string incarnation;
    NodeTraits traits;
    bool here = false;
  };
  struct Pool {
    std::vector<Node> nodes;  // By number.
    std::string group;
    absl::Time since;

    bool complete() const;
    // What a pool without a group, or one that is coming back, waits for, in words.
    std::string Missing() const;
  };

  using Pools = std::map<std::string, Pool, std::less<>>;

  void Lose(Pools::iterator pool, int number, absl::Time now);
  static void End(Pool& pool, absl::Time now);
  absl::Status CheckAgrees(std::string_view name, const Pool& pool, int number,
                           const NodeTraits& traits) const;
  // Nothing: another agent is in its place.
  static std::optional<int> NumberFor(const Pool& pool, std::string_view incarnation,
                                      const NodeTraits& traits);
  // Of the node of this incarnation that is here. Nothing: none is.
  static std::optional<int> Find(const Pool& pool, std::string_view incarnation);

  Options options_;
  Pools pools_;
  // Of nodes, by LeaseName.
  Membership leases_;
};

}  // namespace longhaul
