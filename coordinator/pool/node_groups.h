// The nodes of pools that have several: which are here, their numbers, and when they form a group.
// A group is all nodes of a pool at one time. Its ranks train together under one incarnation, which
// ends with the group. A pool of one node needs no group: its agent's incarnation is the pool's.
//
//   no group --all nodes are here--> a group --one leaves, is lost or starts again--> no group
//
// A node keeps its number while it is here, and when it comes again from the same host. While there
// is no group, a node whose number is not fixed gives it up to one whose number is, if another one
// is free. Knows nothing of jobs.
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

// What a node's agent says about the node.
struct NodeTraits {
  // The number of nodes of its pool.
  int nodes = 1;
  // The node's number, if its user fixed it or it was given before. Empty: any number.
  std::optional<int> number = std::nullopt;
  // The number was given before.
  bool given = false;
  // The traits of this node. Those of the pool are the sum of the ranks, and the capabilities that
  // all nodes have.
  PoolTraits traits = {};
  // The address at which other nodes reach it: a loopback address for all nodes of a pool, or for
  // none. Then, for node 0: HOST:PORT of the rendezvous that it serves, and the secret that ranks
  // show there.
  std::string host = {}, rendezvous = {}, token = {};
  // The version of its program.
  std::string version = {};
  // The name of its machine, for people.
  std::string machine = {};
};

// One node's part of a group.
struct NodePlace {
  int node = 0, nodes = 1;
  // The incarnation of the group. Empty: there is no group.
  std::string incarnation;
  // Set when all nodes are here: this node's first rank and the number of all ranks; the ranks of
  // each node, by node; and node 0's rendezvous.
  int first_rank = 0, ranks = 0;
  std::vector<int> ranks_of_node;
  std::string rendezvous, token;
  // What the group waits for, as a text, or empty. `since`: when the last group ended or the first
  // node came.
  std::string missing;
  absl::Time since;
};

struct NodeView {
  int node = 0;
  bool here = false;
  int ranks = 0;
  std::string host;
  std::string machine = {};
};

class NodeGroups {
 public:
  struct Options {
    absl::Duration lease;
    int pools_max = 1;
  };
  explicit NodeGroups(const Options& options);

  // Gives a node a number and a lease, or renews the lease of the same incarnation. If it was the
  // last missing node, the group is formed, with the incarnation `fresh`, a name that was never
  // used.
  // `running` is not empty if the node's ranks run under this incarnation and it still is the
  // pool's, as after a restart of the coordinator. Then it becomes the group, until a node comes
  // that does not run under it.
  //   INVALID_ARGUMENT     its number is not one of the pool's
  //   FAILED_PRECONDITION  it disagrees with the nodes that are here; the message names both
  //   ALREADY_EXISTS       another agent has that number, or all numbers, and a lease
  //   RESOURCE_EXHAUSTED   pools_max pools, or kRanksMax ranks of one
  absl::Status Join(std::string_view pool, std::string_view incarnation, const NodeTraits& traits,
                    std::string_view running, std::string_view fresh, absl::Time now);
  // NOT_FOUND: the node has no lease. ABORTED: another incarnation has its number.
  absl::Status Renew(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the node's lease and the pool's group. Returns false if that incarnation has no lease.
  bool Leave(std::string_view pool, std::string_view incarnation, absl::Time now);
  // Ends the leases that ran out, and the groups of those nodes. Returns their pools.
  std::vector<std::string> Expire(absl::Time now);
  // Ends the group, for example when its pool lost its place. Its nodes stay.
  void Break(std::string_view pool, absl::Time now);

  // Whether nodes of the pool are known. Everything else here is about such pools.
  bool Has(std::string_view pool) const { return pools_.find(pool) != pools_.end(); }
  // Empty if the node has no lease.
  std::optional<NodePlace> PlaceOf(std::string_view pool, std::string_view incarnation) const;
  // The group's incarnation, valid until the next change. Empty: there is no group.
  std::string_view GroupOf(std::string_view pool) const;
  bool Complete(std::string_view pool) const;
  // The traits of the nodes that are here, together. Requires that the pool is known.
  PoolTraits TraitsOf(std::string_view pool) const;
  // One entry for each node of the pool: its host and its ranks.
  std::vector<NodeView> NodesOf(std::string_view pool) const;
  // A pool without a group: the nodes that are not here, as a text, and since when some are
  // missing.
  struct Forming {
    std::string pool, missing;
    absl::Time since;
  };
  std::vector<Forming> forming() const;

 private:
  struct Node {
    std::string incarnation;
    NodeTraits traits;
    bool here = false;
  };
  struct Pool {
    // By number.
    std::vector<Node> nodes;
    std::string group;
    absl::Time since;
    // Why the last node that did not agree with the others was refused. Empty since the pool was
    // complete.
    std::string disagreement = {};

    bool complete() const;
    // What the pool waits for, as a text, if it has no group or one that is coming back.
    std::string Missing() const;
  };

  using Pools = std::map<std::string, Pool, std::less<>>;

  void Lose(Pools::iterator pool, int number, absl::Time now);
  static void End(Pool& pool, absl::Time now);
  absl::Status CheckAgrees(std::string_view name, const Pool& pool, int number,
                           const NodeTraits& traits) const;
  // The number that the node gets. Empty if another agent has it.
  static std::optional<int> NumberFor(const Pool& pool, std::string_view incarnation,
                                      const NodeTraits& traits);
  // Whether `number` is free now: the node that had it got another one.
  bool MakeRoom(std::string_view name, Pool& pool, int number, absl::Time now);
  // The number of the node of this incarnation, if it is here.
  static std::optional<int> Find(const Pool& pool, std::string_view incarnation);

  Options options_;
  Pools pools_;
  // The leases of nodes, by LeaseName.
  Membership leases_;
};

}  // namespace longhaul
