// One simulated pool: its agent, which holds the lease and starts and stops the ranks, and its
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/rank_node.h"
#include "tests/simulation/world.h"

namespace longhaul::simulation {

struct PoolOptions {
  std::string name;
  int node = 1;  // On the network.
  int ranks = 1;
  absl::Duration step_takes = absl::Milliseconds(100);
  // While there are faults it often cannot do the job that it is given.
  bool misconfigured = false;
};

class PoolNode : public RankHost {
 public:
  PoolNode(World* world, CoordinatorNode* coordinator, PoolOptions options)
      : world_(world), coordinator_(coordinator), options_(std::move(options)) {}

  void Start();            // As a new incarnation.
  void Crash();            // Everything is gone, the coordinator is not told.
  void Leave();            // In order, and for good.
  void Drain();            // In order, and comes back.
  void BreakConnection();  // One of them, at random.
  bool up() const { return up_; }
  int evaluations() const { return evaluations_; }
  std::string Describe() const;

  void Collective(int rank, const std::string& name, std::vector<int64_t> values,
                  absl::Duration takes, std::function<void(const Gathered&)> done) override;
  void RankEvaluated(const RankId& who, const session::Evaluate& evaluation) override;
  void RankWantsRestart(const RankId& who, const std::string& reason) override;
  void RankDrains(const RankId& who) override;
  void RankEnded(const RankId& who, session::Extent done) override;

 private:
  struct Meeting {
    std::string name;
    int arrived = 0;
    Gathered values;
    std::vector<std::function<void(const Gathered&)>> done;
  };

  void Beat();
  void Broken();
  void Drained();
  bool Finished() const;
  void Answered(const coordinator::Answer& answer);
  void Assigned(const std::optional<coordinator::Assignment>& assignment);
  void StartRanks();
  void StopRanks();
  // Runs unless the pool crashed or took another incarnation meanwhile.
  void Later(absl::Duration delay, std::function<void()> run);
  void Call(std::function<void()> call);

  World* world_;
  CoordinatorNode* coordinator_;
  PoolOptions options_;
  bool up_ = false, joined_ = false;
  int64_t life_ = 0;
  std::string incarnation_;
  sim::ConnectionPtr connection_;
  std::optional<coordinator::Assignment> work_;
  // The jobs that this incarnation did steps of: it does not begin them again.
  std::set<std::string> spent_;
  std::vector<std::shared_ptr<RankNode>> ranks_;
  int64_t run_ = 0;  // Counts StartRanks and StopRanks: old meetings end with it.
  std::map<int64_t, Meeting> meetings_;                    // By their order.
  std::vector<int64_t> next_meeting_;                      // By rank.
  // Not acknowledged yet.
  std::vector<coordinator::Evaluation> reports_;
  // It cannot do the job that it was given.
  bool cannot_ = false;
  // Its ranks have ended before the job has.
  bool ended_early_ = false;
  // It was asked to stop; its last step is known.
  bool draining_ = false, last_step_known_ = false;
  int64_t beats_ = 0;
  int evaluations_ = 0;
};

}  // namespace longhaul::simulation
