// One simulated machine of a pool: its agent, whose decisions the product's PoolSupervisor makes,
// and its ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/simulation/membership_node.h"
#include "tests/simulation/rank_group.h"
#include "tests/simulation/rendezvous_node.h"
#include "tests/simulation/site.h"
#include "tests/simulation/world.h"
#include "worker/agent/pool_supervisor.h"

namespace longhaul::simulation {

struct AgentOptions {
  std::string pool;
  // How many nodes the pool has, and the number of this one. Empty: the coordinator chooses the
  // number.
  int nodes = 1;
  std::optional<int> node = std::nullopt;
  int machine = 1;  // Its place on the network.
  int ranks = 1;    // Ranks of this node.
  absl::Duration step_takes = absl::Milliseconds(100);
  // While faults happen, it often cannot do the job that it gets.
  bool misconfigured = false;
  // Its program is of an earlier version: it cannot be asked to stop.
  bool earlier = false;
  // What its ranks take longer than usual until they are ready.
  absl::Duration prepare_more;
};

class AgentNode {
 public:
  AgentNode(World* world, CoordinatorNode* coordinator, Site* site, AgentOptions options);
  ~AgentNode() { Crash(); }

  void Start();  // A new agent process.
  // The agent and its ranks end at once. The coordinator is not told. `silently`: no other machine
  // notices it, either.
  void Crash(bool silently = false);
  void Leave();  // Ends properly and does not return.
  void Drain();  // Ends properly and returns later.
  bool up() const { return process_ != nullptr; }
  int machine() const { return options_.machine; }
  // The group in which this node has a place, and its number there. Empty: it has no group.
  std::string group() const { return up() ? membership_->place().incarnation : ""; }
  int node() const { return membership_->place().node; }

  // A random fault of one of its connections or of one of its ranks.
  void BreakConnection();
  void LoseRank();
  // The rank stands still: it does and reports nothing.
  void StandRankStill(absl::Duration time);
  // A step of the rank takes so much longer. The rank reports meanwhile.
  void DawdleRank(absl::Duration time);
  // The agent stands still for a time while its ranks go on; the agent and its ranks stand still.
  void StandAgentStill(absl::Duration time);
  void StandStill(absl::Duration time);

  std::string Describe() const;

 private:
  using Supervisor = PoolSupervisor;

  void Tick();
  void Assigned(const MembershipNode::State& state);
  void On(const RankGroup::Status& event);
  void On(const RankGroup::AllMerged& event);
  void On(const RankGroup::Evaluation& event);
  void On(const RankGroup::Draining& event);
  void On(const RankGroup::Failure& event);
  void On(const RankGroup::Exit& event);
  // About the current ranks.
  MembershipNode::Subject Subject() const;

  void Perform(const Supervisor::Actions& actions);
  void Do(const Supervisor::StartRanks&);
  void Do(const Supervisor::KillRanks&);
  void Do(const Supervisor::DrainRanks&);
  void Do(const Supervisor::Rejoin& action);
  void Do(const Supervisor::Done& action);
  RankGroup::Meeting PrepareMeeting();

  void CheckBlame(const std::string& reason) const;
  // The name of this node in traces.
  int RankThatDoes(absl::string_view what, absl::Duration time);
  int SomeRank() { return static_cast<int>(world_->random.Below(options_.ranks)); }

  World* const world_;
  CoordinatorNode* const coordinator_;
  Site* const site_;
  const AgentOptions options_;
  const std::string name_;
  int64_t incarnations_ = 0, faults_ = 0;
  // What the product's IncarnationRecord has: the incarnation that was used last.
  std::string record_;

  // The process of the agent. Null: no agent runs.
  std::shared_ptr<Process> process_;
  std::optional<Supervisor> supervisor_;
  std::string token_, rendezvous_address_;
  std::unique_ptr<RendezvousNode> rendezvous_;
  std::unique_ptr<MembershipNode> membership_;
  // The part of this node in its group, from the last complete answer. A pool of one node has all
  // ranks.
  NodePlace place_;
  std::unique_ptr<RankGroup> ranks_;
  // Counts groups of ranks: events of earlier ones are ignored.
  int64_t group_ = 0, failed_group_ = 0;
  // Ranks of this group that stood still while the others went on.
  std::set<int> stood_still_;
};

}  // namespace longhaul::simulation
