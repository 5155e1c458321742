// The simulated rank processes that one agent started together: how they tell the agent what they
// do, and end. Destroying the group kills them.
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
    // The first of them; the others follow.
    RankId first;
    int machine = 1;  // On the network.
    int ranks = 1;
    int nodes = 1;  // Of the pool.
    Meeting meeting;
    absl::Duration step_takes;
    // One of the ranks cannot do this job here.
    bool misconfigured = false;
  };

  // What the agent reads from the pipes of its ranks, which count from 0 here.
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

  RankGroup(World* world, CoordinatorNode* coordinator, Site* site, const Options& options,
            OnEvent on_event);
  ~RankGroup() override;

  void Drain();
  // One of them is ended from outside.
  void Lose(int rank);
  // All of them are, and nobody hears of it.
  void LosePower();
  void StandStill(int rank, absl::Duration time) { ranks_[rank]->StandStill(time); }
  void Dawdle(int rank, absl::Duration time) { ranks_[rank]->Dawdle(time); }
  void BreakConnection(int rank) { ranks_[rank]->BreakConnection(); }
  std::string Describe() const;

 private:
  // By number in the pool.
  void Reported(int rank, const RankStatus& status) override;
  void Evaluated(int rank, const session::Evaluate& evaluation) override;
  void Drains(int rank, int64_t last_step) override;
  void Ended(int rank, const RankEnd& end) override;
  int Local(int rank) const { return rank - options_.first.rank; }

  World* const world_;
  const Options options_;
  const OnEvent on_event_;
  // What happens between the ranks and the agent; ends with the group.
  const std::shared_ptr<Process> process_;
  std::vector<std::shared_ptr<RankNode>> ranks_;
};

}  // namespace longhaul::simulation
