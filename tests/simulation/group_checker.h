// Checks the groups of nodes of a simulated run by its own records: which agent has which number,
// and that a pool trains under one incarnation at a time, with all of its ranks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/decision.h"
#include "coordinator/core/event.h"
#include "coordinator/core/view.h"
#include "tests/simulation/checker.h"

namespace longhaul::simulation {

class GroupChecker {
 public:
  explicit GroupChecker(Checker* checker) : checker_(checker) {}

  // An agent of a pool of several nodes joined. `before`: the nodes that the pool had before.
  void Joined(const coordinator::JoinPool& join, const std::vector<NodeView>& before,
              const NodePlace& place);
  // Checks that a group has one agent for each number.
  void Placed(const std::string& pool, const std::string& incarnation, const NodePlace& place);

  // A process on that machine begins or ends as a rank of a pool of so many nodes. Checks that one
  // process has each rank's number, and that a group of several nodes begins a job once.
  void Starts(const RankId& who, int machine, int nodes);
  void Ends(const RankId& who);
  // All ranks of this incarnation did a step. The first rank did it at `since`: a process that
  // stood still may do its last step late. Checks that no earlier incarnation of the pool trains
  // after that, and that the ranks of all nodes took part.
  void Trains(const RankId& who, absl::Time since, absl::Time now);

  // Liveness: after the faults every pool of several nodes has all its nodes.
  void Whole(const std::string& pool, bool whole);

 private:
  // One start of a pool's ranks: job, pool, incarnation.
  using StartKey = std::tuple<std::string, std::string, std::string>;
  struct Start {
    int ranks = 0, nodes = 1;
    std::map<int, int> machines;  // By rank.
    std::set<int> living;
  };
  struct Pool {
    std::string newest;  // The incarnation that trained last.
    absl::Time newest_began = absl::InfinitePast();
    std::map<std::string, absl::Time> earlier;  // When each of them trained last.
  };

  void Violation(const std::string& what) { checker_->Violation("nodes: " + what); }

  Checker* const checker_;
  // The agent's incarnation, by pool, group and number.
  std::map<std::tuple<std::string, std::string, int>, std::string> agents_;
  std::map<StartKey, Start> starts_;
  std::map<std::string, Pool> pools_;
};

}  // namespace longhaul::simulation
