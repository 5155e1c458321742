// One simulated pool: its machines, and what joins them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/agent_node.h"
#include "tests/simulation/site.h"

namespace longhaul::simulation {

struct PoolOptions {
  std::string name;
  int nodes = 1;
  // Who numbers the nodes: the coordinator, the users of all, or those of all but node 0.
  enum class Numbers { kGiven, kFixed, kMixed } numbers = Numbers::kGiven;
  // There is one more machine, for which there is a place only while another is lost: it has the
  // last one's number, if that is fixed.
  bool spare = false;
  int first_machine = 1;  // On the network; the others follow.
  absl::Duration step_takes = absl::Milliseconds(100);
  // As AgentOptions, of one of the machines.
  bool misconfigured = false;
};

class Pool {
 public:
  Pool(World* world, CoordinatorNode* coordinator, const PoolOptions& options);

  const std::string& name() const { return options_.name; }
  bool several() const { return options_.nodes > 1; }
  std::vector<AgentNode*> agents() const;
  // Another one, at random. For a pool of several machines.
  AgentNode* OtherThan(const AgentNode* agent) const;

  // All of its nodes are in one group, each with a number of its own. A pool of one node, or one
  // that has left, always is.
  bool whole() const;
  void LeaveForGood();
  // Each comes back after `time` or earlier.
  void CrashAll(absl::Duration time);

  // Its shape.
  std::string Describe() const;

 private:
  World* const world_;
  const PoolOptions options_;
  Site site_;
  std::vector<int> ranks_;  // By machine.
  std::vector<std::unique_ptr<AgentNode>> agents_;
  bool gone_ = false;
};

}  // namespace longhaul::simulation
