// The lease of a simulated agent: the product's decisions (worker/agent/agent_membership.h), in
// virtual time and over the simulated network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/process.h"
#include "tests/simulation/world.h"
#include "worker/agent/agent_membership.h"

namespace longhaul::simulation {

class MembershipNode {
 public:
  struct Options {
    // The request to join, without its incarnation and without what is said only once.
    coordinator::JoinPool join;
    int machine = 1;  // On the network.
    // The incarnation that ended on this machine before. Empty: none is known.
    std::string before = {};
    std::function<std::string()> new_incarnation;
  };
  using Subject = AgentMembership::Subject;
  struct State {
    // The incarnation of the ranks: the agent's, or that of the group of nodes.
    std::string incarnation;
    std::optional<coordinator::Assignment> assignment;
    // Only for a pool of several nodes.
    NodePlace place;

    Subject subject() const {
      return {incarnation, assignment ? assignment->job : "", assignment ? assignment->ordinal : 0};
    }
  };
  // Called with every answer of the coordinator, also if the answer is the same as the one before.
  using OnState = std::function<void(const State& state)>;

  // It runs in the agent's process.
  MembershipNode(World* world, CoordinatorNode* coordinator, std::shared_ptr<Process> process,
                 Options options, OnState on_state);
  // Messages that were sent before may still arrive.
  ~MembershipNode();

  void Start() { Turn(); }

  // What the next heartbeats say about the assigned job. It is not sent if it is about another
  // subject than the last answer.
  void SetProgress(const Subject& of, int64_t inner_step);
  void AddEvaluation(const Subject& of, const coordinator::Evaluation& evaluation);
  void ReportFailure(const Subject& of, const JobFault& fault);
  void SetMerged(const Subject& of);
  void SetFinished(const Subject& of);
  void SetStopping(const Subject& of);
  void SetStopped(const Subject& of);
  void ClearStopping();
  // Every heartbeat from now on says this, as long as that group of nodes exists.
  void SetDraining(const Subject& of);

  // Leaves, and joins again after `delay` as a new incarnation, unless it has done so already.
  void Rejoin(const Subject& of, absl::Duration delay);
  // At the end of the process. Zero: the pool gives up its place.
  void Depart(absl::Duration return_within);

  void BreakConnection();
  const std::string& incarnation() const { return membership_.incarnation(); }
  // From the last answer.
  const NodePlace& place() const { return place_; }

 private:
  // One call at a time. A call that is wanted meanwhile comes next.
  void Turn();
  void TurnAfter(absl::Duration delay);
  void Urgent();
  void BeginAnew(absl::Duration delay);
  bool Connected();
  void Join();
  void Beat();
  // Adds evaluations of versions that the pool was not asked for.
  void Lie(coordinator::Heartbeat& beat);
  void Leave(absl::Duration return_within);
  void Broken();
  void Answered(const coordinator::Answer& answer, const coordinator::Heartbeat& sent);
  // How long to wait before the next call.
  absl::Duration Refused(const coordinator::Refuse& refuse);
  void StartAnew();
  // `changed`: what the membership says of the change.
  void Apply(bool changed, const std::optional<coordinator::Assignment>& assignment,
             const NodePlace& place);
  bool several() const { return options_.join.nodes > 1; }
  void Call(std::function<void()> call);
  // Takes the answer of a call and sends it back over the network.
  CoordinatorNode::Answer Back(const coordinator::Heartbeat& sent);

  World* const world_;
  CoordinatorNode* const coordinator_;
  const std::shared_ptr<Process> process_;
  const Options options_;
  const OnState on_state_;
  AgentMembership membership_;
  NodePlace place_;
  sim::ConnectionPtr connection_;
  bool calling_ = false, urgent_ = false;
  int64_t turns_ = 0;
  std::optional<std::pair<Subject, absl::Duration>> rejoin_;
  coordinator::Heartbeat next_;
};

}  // namespace longhaul::simulation
