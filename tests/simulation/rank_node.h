// One simulated rank process. First it meets the pool's other ranks at a rendezvous. Then it runs
// the product's session core, with a simulated shell that performs the core's actions, and its
// share of every fragment. Foreground actions run one after another; collectives wait for the other
// ranks; other actions run at once. The product's monitor makes its reports; the product's rank_end
// decides how it ends.
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

// Much shorter than a run, and much longer than a rank needs between two reports. The supervisor
// does not notice that its agent was stopped for less than 2 s, and must not find its ranks silent
// then.
inline constexpr ProgressLimits kProgress{
    .at_least = absl::Seconds(5), .factor = 20, .first = absl::Seconds(10)};
// How long an agent that is asked to stop lets its ranks drain.
inline constexpr absl::Duration kDrain = absl::Seconds(6);

// What a rank tells its agent. Not called after Kill.
class RankHost {
 public:
  virtual ~RankHost() = default;
  // About once a second.
  virtual void Reported(int rank, const RankStatus& status) = 0;
  // The pool merged the job's last commits.
  virtual void Merged(int rank) = 0;
  virtual void Evaluated(int rank, const session::Evaluate& evaluation) = 0;
  // The pool was asked to stop. This is the last step of the rank.
  virtual void Drains(int rank, int64_t last_step) = 0;
  // The process ends in this way.
  virtual void Ended(int rank, const RankEnd& end) = 0;
};

// Shared with messages that have not arrived yet.
class RankNode : public std::enable_shared_from_this<RankNode> {
 public:
  // The rendezvous where the ranks exchange their addresses, and the ranks that take part.
  struct Meeting {
    std::string rendezvous, token;
    uint64_t generation = 0;
  };
  struct Options {
    RankId id;
    int machine = 1;  // Its place on the network.
    int nodes = 1;    // Nodes of the pool.
    Meeting meeting;
    absl::Duration prepare, step_takes;
    // After so many steps it finds that this site cannot do the job. 0: it finds it before the
    // first step.
    std::optional<int64_t> fails_after;
  };
  RankNode(World* world, CoordinatorNode* coordinator, Site* site, RankHost* host, Options options);

  void Start();
  // SIGKILL. `silently`: see Communicator::Leave.
  void Kill(bool silently = false);
  void Drain();  // SIGTERM.
  void BreakConnection();
  void StandStill(absl::Duration time) { process_->StandStill(time); }
  // Its next step takes so much longer.
  void Dawdle(absl::Duration time) { dawdle_ = time; }
  bool ended() const { return process_->ended(); }
  const session::Session& session() const { return session_; }
  int64_t fragments() const { return static_cast<int64_t>(fragments_.size()); }

 private:
  struct Fragment {
    Words outer = {}, live = {}, error = {};
    Words kept = {}, residual = {};  // The words and the residual of the push for kept_version.
    int64_t kept_version = -1, kept_weight = 1;
    RoundKind kept_kind = RoundKind::kOuter;
    Words downlink = {};
  };

  void Prepare();
  void Begin();
  void Report();
  void Feed(const session::Event& event);
  void End(const RankEnd& end);
  // Runs a function later, in this process.
  void Later(absl::Duration delay, std::function<void()> run);

  // rank_node_meeting.cc: the exchange of addresses, from which the communicator is made.
  void Meet();
  void Exchange();
  void Exchanged(const RendezvousNode::Blobs& blobs);
  void MeetAt(const std::vector<std::string>& blobs);
  void MeetingFails(const absl::Status& status);

  // rank_node_transfers.cc: the connection to the coordinator, and its calls.
  void Connect();
  void Broken();
  // Sends a call over the connection. `call` runs at the coordinator. Back sends its answer.
  void Call(std::function<void()> call);
  void Back(const sim::ConnectionPtr& connection, std::function<void()> run);
  void Send(int fragment, int64_t version, RoundKind kind);
  void Refused(session::PullRefused refused, const absl::Status& status);
  void Do(const session::SeedPush& action);
  void Do(const session::PullWhole& action);
  void Do(const session::PushAgain& action);
  void Do(const session::Pull& action);
  void Do(const session::Wait&) {}

  // Foreground actions.
  void Do(const session::AgreeOnVersions& action);
  void Do(const session::RunStep& action);
  void Do(const session::Push& action);
  void Do(const session::AgreeOnMerge& action);
  void Do(const session::Merge& action);
  void Do(const session::Evaluate& action);
  void Do(const session::Draining& action);
  void Do(const session::Finish& action);
  void Do(const session::Restart& action);

  void Evaluate(const session::Evaluate& action, int64_t batches_left);
  void RunForeground();
  bool SkipsFor(const session::Action& action);
  // See Communicator::Collective.
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
  // At the rendezvous: its address, its current call, and when it gives up.
  std::string address_;
  sim::ConnectionPtr rendezvous_;
  absl::Time meet_until_ = absl::InfiniteFuture();
  std::shared_ptr<Communicator> communicator_;
  // Whether the session has begun, and whether the training thread is busy or waits.
  bool begun_ = false, busy_ = false, waits_ = false;
  // Whether the pool was asked to stop, and whether another rank has stopped: then no collective
  // works.
  bool drain_ = false, peers_stopped_ = false;
  session::Session session_;
  sim::ConnectionPtr connection_;
  std::deque<session::Action> foreground_;
  std::vector<Fragment> fragments_;
  int64_t steps_done_ = 0;
  absl::Duration dawdle_;
  // Its current collective: the number (0: none), and when it gives up.
  int64_t collective_ = 0, collectives_ = 0;
  absl::Time collective_until_;
};

}  // namespace longhaul::simulation
