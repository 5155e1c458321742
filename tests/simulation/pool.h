// One simulated pool: its machines, and the site that connects them.
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
  // Who numbers the nodes: the coordinator; the user, all nodes; or the user, all except node 0.
  enum class Numbers { kGiven, kFixed, kMixed } numbers = Numbers::kGiven;
  // Whether there is a spare machine. It gets a place only while another machine is lost. If
  // numbers are fixed, it has the number of the last machine.
  bool spare = false;
  int first_machine = 1;  // Its place on the network. The others have the next ones.
  absl::Duration step_takes = absl::Milliseconds(100);
  // See AgentOptions. It applies to one of the machines.
  bool misconfigured = false;
  bool earlier = false;
  // What its ranks take longer than usual until they are ready.
  absl::Duration prepare_more;
};

class Pool {
 public:
  Pool(World* world, CoordinatorNode* coordinator, const PoolOptions& options);

  const std::string& name() const { return options_.name; }
  bool several() const { return options_.nodes > 1; }
  std::vector<AgentNode*> agents() const;
  // A random other machine. Only for a pool of several machines.
  AgentNode* OtherThan(const AgentNode* agent) const;

  // Whether all its nodes are in one group, each with a number of its own. True for a pool of one
  // node and for one that has left.
  bool whole() const;
  void LeaveForGood();
  // Each machine comes back after at most `time`.
  void CrashAll(absl::Duration time);

  // The shape of the pool, for people.
  std::string Describe() const;

 private:
  World* const world_;
  const PoolOptions options_;
  Site site_;
  std::vector<int> ranks_;  // Ranks of each machine.
  std::vector<std::unique_ptr<AgentNode>> agents_;
  bool gone_ = false;
};

}  // namespace longhaul::simulation
