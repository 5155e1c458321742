// The lease of a simulated agent: what the membership client (worker/agent/membership_client.h)
// does, in virtual time, over the simulated network.
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
    // Without an incarnation, and what is said only once.
    coordinator::JoinPool join;
    int machine = 1;  // On the network.
    std::function<std::string()> new_incarnation;
  };
  // The job and incarnation for which ranks were started.
  struct Subject {
    std::string incarnation, job;
    int ordinal = 0;
    friend bool operator==(const Subject&, const Subject&) = default;
  };
  struct Standing {
    // Under which ranks work: the agent's, or that of the group of nodes.
    std::string incarnation;
    std::optional<coordinator::Assignment> assignment;
    // For a pool of several nodes.
    NodePlace place;

    Subject subject() const {
      return {incarnation, assignment ? assignment->job : "", assignment ? assignment->ordinal : 0};
    }
  };
  // With every answer of the coordinator, also with one like the last.
  using OnStanding = std::function<void(const Standing& standing)>;

  // Runs in the agent's process.
  MembershipNode(World* world, CoordinatorNode* coordinator, std::shared_ptr<Process> process,
                 Options options, OnStanding on_standing);
  // What was sent just before may still arrive.
  ~MembershipNode();

  void Start() { Turn(); }

  // What the next heartbeats carry about the assigned job; nothing, if it is about another subject
  // than the last answer.
  void SetProgress(const Subject& of, int64_t inner_step);
  void AddEvaluation(const Subject& of, const coordinator::Evaluation& evaluation);
  void ReportFailure(const Subject& of, const JobFault& fault);
  void SetFinished(const Subject& of);
  // Of every heartbeat from now on, while that group of nodes is.
  void SetDraining(const Subject& of);

  // Leaves, and comes back after `delay` as a new incarnation.
  void Rejoin(absl::Duration delay);
  // At the process's end. Zero: the place is given up.
  void Depart(absl::Duration return_within);

  void BreakConnection();
  const std::string& incarnation() const { return incarnation_; }
  // As last received.
  const NodePlace& place() const { return place_; }

 private:
  // One call at a time, as of one thread: this one, or what was asked for meanwhile.
  void Turn();
  void TurnAfter(absl::Duration delay);
  void Urgent();
  void BeginAnew(absl::Duration delay);
  bool Connected();
  void Join();
  void Beat();
  void Leave(absl::Duration return_within);
  void Broken();
  void Answered(const coordinator::Answer& answer, const coordinator::Heartbeat& sent);
  // How long to wait then.
  absl::Duration Refused(const coordinator::Refuse& refuse);
  void Apply(const std::optional<coordinator::Assignment>& assignment, const NodePlace& place);
  bool several() const { return options_.join.nodes > 1; }
  void Call(std::function<void()> call);
  // What a call's answer is given to: it is sent back.
  CoordinatorNode::Answer Back(const coordinator::Heartbeat& sent);

  World* const world_;
  CoordinatorNode* const coordinator_;
  const std::shared_ptr<Process> process_;
  const Options options_;
  const OnStanding on_standing_;
  std::string incarnation_;
  NodePlace place_;
  sim::ConnectionPtr connection_;
  bool joined_ = false, calling_ = false, urgent_ = false, draining_ = false;
  int64_t turns_ = 0;
  std::optional<absl::Duration> rejoin_;
  std::optional<Subject> subject_;  // As last handed on.
  coordinator::Heartbeat next_;
};

}  // namespace longhaul::simulation
