// One simulated rank: its session core, a shell that performs the actions, and its share of every
// fragment. Foreground actions run one after another, collectives together with the pool's other
// ranks; the rest runs at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/world.h"
#include "worker/session/core/session.h"

namespace longhaul::simulation {

// What a rank needs of its pool. Answers may come after Stop; the rank ignores them then.
class RankHost {
 public:
  using Gathered = std::vector<std::vector<int64_t>>;  // By rank.
  virtual ~RankHost() = default;
  // Every rank calls this with the same names in the same order; `done` runs when all have, a while
  // later.
  virtual void Collective(int rank, const std::string& name, std::vector<int64_t> values,
                          absl::Duration takes, std::function<void(const Gathered&)> done) = 0;
  virtual void RankEvaluated(const RankId& who, const session::Evaluate& evaluation) = 0;
  virtual void RankWantsRestart(const RankId& who, const std::string& reason) = 0;
  // The pool was asked to stop, and the rank does no further step.
  virtual void RankDrains(const RankId& who) = 0;
  // The session has nothing more to do.
  virtual void RankEnded(const RankId& who, session::Extent done) = 0;
};

// Shared with the messages under way.
class RankNode : public std::enable_shared_from_this<RankNode> {
 public:
  RankNode(World* world, CoordinatorNode* coordinator, RankHost* host, RankId id, int node,
           absl::Duration step_takes);

  void Start() { Connect(); }
  void Stop();
  void BreakConnection();
  void Drain();
  const session::Session& session() const { return session_; }
  int64_t fragments() const { return static_cast<int64_t>(fragments_.size()); }

 private:
  struct Fragment {
    Words outer = {}, live = {}, error = {};
    Words kept = {}, residual = {};  // Of the push for kept_version.
    int64_t kept_version = -1;
    RoundKind kept_kind = RoundKind::kOuter;
    Words downlink = {};
  };

  void Connect();
  void Broken();
  void Feed(const session::Event& event);
  // Sends a call over the connection; `call` runs at the coordinator. Its answer comes by Back.
  void Call(std::function<void()> call);
  void Back(const sim::ConnectionPtr& connection, std::function<void()> run);

  void Do(const session::SeedPush& action);
  void Do(const session::PullWhole& action);
  void Do(const session::PushAgain& action);
  void Do(const session::Pull& action);
  void Do(const session::Wait&) {}
  // Foreground.
  void Do(const session::AgreeOnVersions& action);
  void Do(const session::RunStep& action);
  void Do(const session::Push& action);
  void Do(const session::Merge& action);
  void Do(const session::Evaluate& action);
  void Do(const session::Draining& action);
  void Do(const session::Finish& action);
  void Do(const session::Restart& action);

  void RunForeground();
  void Together(std::string name, std::vector<int64_t> values, absl::Duration takes,
                std::function<void(const RankHost::Gathered&)> then);
  Fragment& At(int fragment);
  void Send(int fragment, int64_t version, RoundKind kind);
  void Refused(session::PullRefused refused, const absl::Status& status);
  void Apply(const session::Merge& merge);

  World* world_;
  CoordinatorNode* coordinator_;
  RankHost* host_;
  RankId id_;
  std::string name_;
  int node_;
  absl::Duration step_takes_;
  bool alive_ = true, busy_ = false;
  // The pool was asked to stop.
  bool drain_ = false;
  session::Session session_;
  sim::ConnectionPtr connection_;
  std::deque<session::Action> foreground_;
  std::vector<Fragment> fragments_;
};

}  // namespace longhaul::simulation
