// The simulated rank processes that one agent started together, and their reports to the agent. The
// destructor kills them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/simulation/rank_node.h"

namespace longhaul::simulation {

class RankGroup : private RankHost {
 public:
  using Meeting = RankNode::Meeting;
  struct Options {
    // The number of the first rank. The others have the next numbers.
    RankId first;
    int machine = 1;  // Its place on the network.
    int ranks = 1;
    int nodes = 1;  // Nodes of the pool.
    Meeting meeting;
    absl::Duration prepare_more, step_takes;
    // One of the ranks will find that it cannot do the job here.
    bool misconfigured = false;
  };

  // What the agent reads from the pipes of its ranks. Here ranks count from 0.
  struct Status {
    int rank = 0;
    RankStatus status;
  };
  struct AllMerged {};
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
  using Event = std::variant<Status, AllMerged, Evaluation, Draining, Failure, Exit>;
  // The ranks call these. Do not kill the ranks inside such a call.
  using OnEvent = std::function<void(const Event&)>;

  RankGroup(World* world, CoordinatorNode* coordinator, Site* site, const Options& options,
            OnEvent on_event);
  ~RankGroup() override;

  void Drain();
  // One rank is killed from outside.
  void Lose(int rank);
  // All ranks are killed, and no other machine notices it.
  void LosePower();
  void StandStill(int rank, absl::Duration time) { ranks_[rank]->StandStill(time); }
  void Dawdle(int rank, absl::Duration time) { ranks_[rank]->Dawdle(time); }
  void BreakConnection(int rank) { ranks_[rank]->BreakConnection(); }
  std::string Describe() const;

 private:
  // By the rank's number in the pool.
  void Reported(int rank, const RankStatus& status) override;
  void Merged(int rank) override;
  void Evaluated(int rank, const session::Evaluate& evaluation) override;
  void Drains(int rank, int64_t last_step) override;
  void Ended(int rank, const RankEnd& end) override;
  int Local(int rank) const { return rank - options_.first.rank; }

  World* const world_;
  const Options options_;
  const OnEvent on_event_;
  // Events between the ranks and the agent. They end with the group.
  const std::shared_ptr<Process> process_;
  std::vector<std::shared_ptr<RankNode>> ranks_;
};

}  // namespace longhaul::simulation
