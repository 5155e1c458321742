// The lease of a simulated pool: what the agent's membership client
// (worker/agent/membership_client.h) does, in virtual time, over the simulated network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/process.h"
#include "tests/simulation/world.h"

namespace longhaul::simulation {

class MembershipNode {
 public:
  struct Options {
    std::string pool;
    int node = 1;  // On the network.
    int ranks = 1;
    std::function<std::string()> new_incarnation;
  };
  // With every answer of the coordinator, also with one like the last.
  using OnAssignment = std::function<void(
      const std::string& incarnation, const std::optional<coordinator::Assignment>& assignment)>;

  // Runs in the agent's process.
  MembershipNode(World* world, CoordinatorNode* coordinator, std::shared_ptr<Process> process,
                 Options options, OnAssignment on_assignment);
  // What was sent just before may still arrive.
  ~MembershipNode();

  void Start() { Turn(); }

  // What the next heartbeats carry about the assigned job.
  void SetProgress(int64_t inner_step) { next_.inner_step = inner_step; }
  void AddEvaluation(const coordinator::Evaluation& evaluation);
  void ReportFailure(const JobFault& fault);
  void SetFinished();
  // Of every heartbeat from now on.
  void SetDraining();

  // Leaves, and comes back after `delay` as a new incarnation.
  void Rejoin(absl::Duration delay);
  // At the process's end. Zero: the place is given up.
  void Leave(absl::Duration return_within);

  void BreakConnection();
  const std::string& incarnation() const { return incarnation_; }

 private:
  // One call at a time, as of one thread: this one, or what was asked for meanwhile.
  void Turn();
  void TurnAfter(absl::Duration delay);
  void Urgent();
  void BeginAnew(absl::Duration delay);
  bool Connected();
  void Join();
  void Beat();
  void Broken();
  void Answered(const coordinator::Answer& answer, const coordinator::Heartbeat& sent);
  // How long to wait then.
  absl::Duration Refused(const coordinator::Refuse& refuse);
  void Apply(const std::optional<coordinator::Assignment>& assignment);
  void Call(std::function<void()> call);
  // What a call's answer is given to: it is sent back.
  CoordinatorNode::Answer Back(const coordinator::Heartbeat& sent);

  World* const world_;
  CoordinatorNode* const coordinator_;
  const std::shared_ptr<Process> process_;
  const Options options_;
  const OnAssignment on_assignment_;
  std::string incarnation_;
  sim::ConnectionPtr connection_;
  bool joined_ = false, calling_ = false, urgent_ = false, draining_ = false;
  int64_t turns_ = 0;
  std::optional<absl::Duration> rejoin_;
  std::string applied_;  // Incarnation and assignment, as last handed on.
  coordinator::Heartbeat next_;
};

}  // namespace longhaul::simulation
