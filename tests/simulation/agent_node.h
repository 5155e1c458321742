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
  // Nodes of the pool, and this one's number. Empty: the coordinator gives one.
  int nodes = 1;
  std::optional<int> node = std::nullopt;
  int machine = 1;  // On the network.
  int ranks = 1;    // Of this node.
  absl::Duration step_takes = absl::Milliseconds(100);
  // While there are faults it often cannot do the job that it is given.
  bool misconfigured = false;
};

class AgentNode {
 public:
  AgentNode(World* world, CoordinatorNode* coordinator, Site* site, AgentOptions options);
  ~AgentNode() { Crash(); }

  void Start();  // A new agent process.
  // Everything is gone, the coordinator is not told. Silently: nobody else hears of it, either.
  void Crash(bool silently = false);
  void Leave();  // In order, and for good.
  void Drain();  // In order, and comes back.
  bool up() const { return process_ != nullptr; }
  int machine() const { return options_.machine; }
  // The group in which it has a place, and its number there. Empty: none.
  std::string group() const { return up() ? membership_->place().incarnation : ""; }
  int node() const { return membership_->place().node; }

  // Faults of one of its connections, or of one of its ranks, at random.
  void BreakConnection();
  void LoseRank();
  // It neither does nor reports anything.
  void StandRankStill(absl::Duration time);
  // A step takes so much longer; it reports all the while.
  void DawdleRank(absl::Duration time);
  // The agent goes on later, its ranks meanwhile; and all of them together.
  void StandAgentStill(absl::Duration time);
  void StandStill(absl::Duration time);

  std::string Describe() const;

 private:
  using Supervisor = PoolSupervisor;

  void Tick();
  void Assigned(const MembershipNode::Standing& standing);
  void On(const RankGroup::Status& event);
  void On(const RankGroup::Evaluation& event);
  void On(const RankGroup::Draining& event);
  void On(const RankGroup::Failure& event);
  void On(const RankGroup::Exit& event);
  // Of the current ranks.
  MembershipNode::Subject Subject() const;

  void Perform(const Supervisor::Actions& actions);
  void Do(const Supervisor::StartRanks&);
  void Do(const Supervisor::KillRanks&);
  void Do(const Supervisor::DrainRanks&);
  void Do(const Supervisor::Rejoin& action);
  void Do(const Supervisor::Done& action);
  RankGroup::Meeting PrepareMeeting();

  void CheckBlame(const std::string& reason) const;
  // Which one, as traced.
  int RankThatDoes(absl::string_view what, absl::Duration time);
  int SomeRank() { return static_cast<int>(world_->random.Below(options_.ranks)); }

  World* const world_;
  CoordinatorNode* const coordinator_;
  Site* const site_;
  const AgentOptions options_;
  const std::string name_;
  int64_t incarnations_ = 0, faults_ = 0;

  // Of the agent; null: none runs.
  std::shared_ptr<Process> process_;
  std::optional<Supervisor> supervisor_;
  std::string token_, rendezvous_address_;
  std::unique_ptr<RendezvousNode> rendezvous_;
  std::unique_ptr<MembershipNode> membership_;
  // The node's part in its group, as last received completely. With one node: all ranks.
  NodePlace place_;
  std::unique_ptr<RankGroup> ranks_;
  // Counts groups of ranks: events of earlier ones are ignored.
  int64_t group_ = 0, failed_group_ = 0;
  // The ranks of this group that stood still, each by itself.
  std::set<int> stood_still_;
};

}  // namespace longhaul::simulation
