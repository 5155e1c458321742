// Judges the groups of nodes of a simulated run by its own books: who has which number, and that a
// pool trains under one incarnation at a time, with all of its ranks.
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

  // An agent of a pool of several nodes joined. `before`: the pool's nodes as they were known.
  void Joined(const coordinator::JoinPool& join, const std::vector<NodeView>& before,
              const NodePlace& place);
  // A group has one agent for each number.
  void Placed(const std::string& pool, const std::string& incarnation, const NodePlace& place);

  // A process on that machine begins, or has ended, as a rank of a pool of so many nodes. A rank's
  // number belongs to one process; a group of several nodes begins a job once.
  void Starts(const RankId& who, int machine, int nodes);
  void Ends(const RankId& who);
  // All ranks of its incarnation have done a step, of which the first rank was done at `since`: a
  // process that stood still may do its last step late. No earlier incarnation of the pool trains
  // after that, and the ranks are those of all nodes.
  void Trains(const RankId& who, absl::Time since, absl::Time now);

  // Liveness: after the faults every pool of several nodes is whole.
  void Whole(const std::string& pool, bool whole);

 private:
  // Of one start of a pool's ranks: job, pool, incarnation.
  using StartKey = std::tuple<std::string, std::string, std::string>;
  struct Start {
    int ranks = 0, nodes = 1;
    std::map<int, int> machines;  // By rank.
    std::set<int> living;
  };
  struct Pool {
    std::string newest;                         // The incarnation that trained last.
    std::map<std::string, absl::Time> earlier;  // Until when.
  };

  void Violation(const std::string& what) { checker_->Violation("nodes: " + what); }

  Checker* const checker_;
  // By pool, group and number: the agent's incarnation.
  std::map<std::tuple<std::string, std::string, int>, std::string> agents_;
  std::map<StartKey, Start> starts_;
  std::map<std::string, Pool> pools_;
};

}  // namespace longhaul::simulation
