// One simulated pool: its agent, whose decisions the product's PoolSupervisor makes, and its ranks.
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
#include "tests/simulation/world.h"
#include "worker/agent/pool_supervisor.h"

namespace longhaul::simulation {

struct PoolOptions {
  std::string name;
  int node = 1;  // On the network.
  int ranks = 1;
  absl::Duration step_takes = absl::Milliseconds(100);
  // While there are faults it often cannot do the job that it is given.
  bool misconfigured = false;
};

class PoolNode {
 public:
  PoolNode(World* world, CoordinatorNode* coordinator, PoolOptions options)
      : world_(world), coordinator_(coordinator), options_(std::move(options)) {}
  ~PoolNode() { Crash(); }

  void Start();  // A new agent process.
  void Crash();  // Everything is gone, the coordinator is not told.
  void Leave();  // In order, and for good.
  void Drain();  // In order, and comes back.
  bool up() const { return process_ != nullptr; }

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
  void Assigned(const std::string& incarnation,
                const std::optional<coordinator::Assignment>& assignment);
  void On(const RankGroup::Status& event);
  void On(const RankGroup::Evaluation& event);
  void On(const RankGroup::Draining& event);
  void On(const RankGroup::Failure& event);
  void On(const RankGroup::Exit& event);

  void Perform(const Supervisor::Actions& actions);
  void Do(const Supervisor::StartRanks&);
  void Do(const Supervisor::KillRanks&);
  void Do(const Supervisor::DrainRanks&);
  void Do(const Supervisor::Rejoin& action);
  void Do(const Supervisor::Done& action);

  void CheckBlame(const std::string& reason) const;
  // Which one, as traced.
  int RankThatDoes(absl::string_view what, absl::Duration time);
  int SomeRank() { return static_cast<int>(world_->random.Below(options_.ranks)); }

  World* const world_;
  CoordinatorNode* const coordinator_;
  const PoolOptions options_;
  int64_t incarnations_ = 0, faults_ = 0;

  // Of the agent; null: none runs.
  std::shared_ptr<Process> process_;
  std::optional<Supervisor> supervisor_;
  std::unique_ptr<MembershipNode> membership_;
  std::unique_ptr<RankGroup> ranks_;
  // Counts groups of ranks: events of earlier ones are ignored.
  int64_t group_ = 0, failed_group_ = 0;
  // The ranks of this group that stood still, each by itself.
  std::set<int> stood_still_;
};

}  // namespace longhaul::simulation
