// The simulated rank processes of a pool that its agent started together: how they meet in
// collectives, tell the agent what they do, and end. Destroying the group kills them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/simulation/rank_node.h"

namespace longhaul::simulation {

class RankGroup : private RankHost {
 public:
  struct Options {
    std::string job, pool, incarnation;
    int node = 1;  // On the network.
    int ranks = 1;
    absl::Duration step_takes;
    // One of the ranks cannot do this job here.
    bool misconfigured = false;
  };

  // What the agent reads from the pipes of its ranks.
  struct Status {
    int rank = 0;
    RankStatus status;
  };
  struct Evaluation {
    session::Evaluate what;
  };
  struct Draining {
    int64_t last_step = 0;
  };
  struct Failure {
    v1::JobError fault;
  };
  struct Exit {
    int rank = 0;
    int code = 0;
  };
  using Event = std::variant<Status, Evaluation, Draining, Failure, Exit>;
  // Called from within the ranks: what kills them is to be done later.
  using OnEvent = std::function<void(const Event&)>;

  RankGroup(World* world, CoordinatorNode* coordinator, const Options& options, OnEvent on_event);
  ~RankGroup() override;

  void Drain();
  // One of them is ended from outside.
  void Lose(int rank);
  void StandStill(int rank, absl::Duration time) { ranks_[rank]->StandStill(time); }
  void Dawdle(int rank, absl::Duration time) { ranks_[rank]->Dawdle(time); }
  void BreakConnection(int rank) { ranks_[rank]->BreakConnection(); }
  std::string Describe() const;

 private:
  struct Meeting {
    std::string name;
    int arrived = 0;
    Gathered values;
    std::vector<Met> met;
  };

  void Collective(int rank, const std::string& name, std::vector<int64_t> values,
                  absl::Duration takes, Met met) override;
  void Reported(int rank, const RankStatus& status) override;
  void Evaluated(int rank, const session::Evaluate& evaluation) override;
  void Drains(int rank, int64_t last_step) override;
  void Ended(int rank, const RankEnd& end) override;

  void Gone(int rank, int code);
  // Those who wait in it hear that a rank is gone.
  void Fail(Meeting& meeting);

  World* const world_;
  const Options options_;
  const OnEvent on_event_;
  // What happens between the processes; ends with the group.
  const std::shared_ptr<Process> process_;
  std::vector<std::shared_ptr<RankNode>> ranks_;
  std::map<int64_t, Meeting> meetings_;  // By their order.
  std::vector<int64_t> next_meeting_;    // By rank.
  bool gone_ = false;                    // A rank is.
};

}  // namespace longhaul::simulation
