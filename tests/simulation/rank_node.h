// One simulated rank process: it meets the pool's other ranks at a rendezvous; then its session
// core, a shell that performs the actions, and its share of every fragment. Foreground actions run
// one after another, collectives together with the other ranks; the rest runs at once. What it
// reports is the product's monitor's, how it ends the product's rank_end's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/process.h"
#include "tests/simulation/site.h"
#include "tests/simulation/world.h"
#include "worker/rank/rank_end.h"
#include "worker/rank/rank_monitor.h"
#include "worker/session/core/session.h"

namespace longhaul::simulation {

// Short beside a run, and long beside what a rank does without standing still. An agent that was
// stopped for less than the supervisor notices (2 s) must not take its ranks for silent.
inline constexpr ProgressLimits kProgress{
    .at_least = absl::Seconds(5), .factor = 20, .first = absl::Seconds(10)};
// What an agent that is asked to stop gives its ranks.
inline constexpr absl::Duration kDrain = absl::Seconds(6);

// What a rank tells its agent. Not called any more after Kill.
class RankHost {
 public:
  virtual ~RankHost() = default;
  // About once a second.
  virtual void Reported(int rank, const RankStatus& status) = 0;
  virtual void Evaluated(int rank, const session::Evaluate& evaluation) = 0;
  // The pool was asked to stop, and the rank does no step after that one.
  virtual void Drains(int rank, int64_t last_step) = 0;
  // The process has nothing more to do than to end so.
  virtual void Ended(int rank, const RankEnd& end) = 0;
};

// Shared with the messages under way.
class RankNode : public std::enable_shared_from_this<RankNode> {
 public:
  // Where the ranks exchange their addresses, and with whom.
  struct Meeting {
    std::string rendezvous, token;
    uint64_t generation = 0;
  };
  struct Options {
    RankId id;
    int machine = 1;  // On the network.
    int nodes = 1;    // Of the pool.
    Meeting meeting;
    absl::Duration prepare, step_takes;
    // It finds that this site cannot do the job after so many steps; 0: while it prepares.
    std::optional<int64_t> fails_after;
  };
  RankNode(World* world, CoordinatorNode* coordinator, Site* site, RankHost* host, Options options);

  void Start();
  // SIGKILL. Silently: as Communicator::Leave.
  void Kill(bool silently = false);
  void Drain();  // SIGTERM.
  void BreakConnection();
  void StandStill(absl::Duration time) { process_->StandStill(time); }
  // Its next step takes longer by that time.
  void Dawdle(absl::Duration time) { dawdle_ = time; }
  bool ended() const { return process_->ended(); }
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

  void Prepare();
  void Begin();
  void Report();
  void Feed(const session::Event& event);
  void End(const RankEnd& end);
  // Runs in this process, later.
  void Later(absl::Duration delay, std::function<void()> run);

  // rank_node_meeting.cc: what the rank's communicator is made of.
  void Meet();
  void Exchange();
  void Exchanged(const RendezvousNode::Blobs& blobs);
  void MeetAt(const std::vector<std::string>& blobs);
  void MeetingFails(const absl::Status& status);

  // rank_node_transfers.cc: the connection, and what goes over it.
  void Connect();
  void Broken();
  // Sends a call over the connection; `call` runs at the coordinator. Its answer comes by Back.
  void Call(std::function<void()> call);
  void Back(const sim::ConnectionPtr& connection, std::function<void()> run);
  void Send(int fragment, int64_t version, RoundKind kind);
  void Refused(session::PullRefused refused, const absl::Status& status);
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
  bool SkipsFor(const session::Action& action);
  // As Communicator::Collective.
  std::optional<absl::Time> Together(std::string name, std::vector<int64_t> values,
                                     absl::Duration takes,
                                     std::function<void(const Communicator::Gathered&)> then);
  void PeersAreGone(const absl::Status& status);
  void Apply(const session::Merge& merge);
  Fragment& At(int fragment);

  World* const world_;
  CoordinatorNode* const coordinator_;
  Site* const site_;
  RankHost* const host_;
  const Options options_;
  const RankId& id_ = options_.id;
  const std::string name_;
  const std::shared_ptr<Process> process_;
  RankMonitor monitor_;
  // The meeting: its own address, the call under way, and when it gives up.
  std::string address_;
  sim::ConnectionPtr rendezvous_;
  absl::Time meet_until_ = absl::InfiniteFuture();
  std::shared_ptr<Communicator> communicator_;
  // The session has begun; the training thread has something to do, waits for it.
  bool begun_ = false, busy_ = false, waits_ = false;
  // The pool was asked to stop; and another rank has, so that no collective can be any more.
  bool drain_ = false, peers_stopped_ = false;
  session::Session session_;
  sim::ConnectionPtr connection_;
  std::deque<session::Action> foreground_;
  std::vector<Fragment> fragments_;
  int64_t steps_done_ = 0;
  absl::Duration dawdle_;
  // The collective that it is in: its number, 0 for none, and when it is given up.
  int64_t collective_ = 0, collectives_ = 0;
  absl::Time collective_until_;
};

}  // namespace longhaul::simulation
