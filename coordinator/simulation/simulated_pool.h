// A pool in virtual time: the product's session core of one rank, which stands for all of them,
// and a shell that performs its actions in modelled times. Its agent joins, sends heartbeats, and
// starts the rank again under another incarnation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/plan/exchange_forecast.h"
#include "common/simulation/event_loop.h"
#include "common/simulation/network.h"
#include "coordinator/simulation/simulated_coordinator.h"
#include "worker/session/core/session.h"

namespace longhaul::coordinator {

// The coordinator's place on the network.
inline constexpr int kCoordinatorNode = 0;

// Not thread-safe.
class SimulatedPool {
 public:
  struct Options {
    std::string name;
    int node = 1;  // Its place on the network.
    plan::PoolRates rates;
    // From the start of its ranks until they are ready.
    absl::Duration prepare = absl::Seconds(5);
    absl::Duration evaluation = absl::ZeroDuration();
  };
  struct Sums {
    // Seconds, as the product reports them: an exposed wait is one for a commit.
    double compute = 0, copying = 0, wait = 0, evaluation = 0;
    int64_t steps = 0;
    // Of them, those that are part of committed rounds.
    int64_t counted_steps = 0;
    double bytes_up = 0, bytes_down = 0;
    int starts = 0, losses = 0;
  };

  SimulatedPool(sim::EventLoop* loop, sim::Network* network, SimulatedCoordinator* coordinator,
                Options options);

  void Start();
  // Its machines are lost with all that they had, and come back after this time.
  void Lose(absl::Duration back_after);
  // Its steps take so many times as long.
  void SlowDown(double factor, absl::Duration lasts);
  // It cannot reach the coordinator.
  void CutLink(absl::Duration lasts);
  // A commit took its contribution.
  void Counted(const std::string& incarnation, int fragment, int64_t version);

  const std::string& name() const { return options_.name; }
  const Sums& sums() const { return sums_; }
  const plan::PoolRates& rates() const { return options_.rates; }

 private:
  // Runs later, unless the machines are lost before.
  void Later(absl::Duration delay, std::function<void()> run);
  void Join();
  void Beat();
  void SendBeat();
  void Answered(const std::optional<Answer>& answer);
  void BeginRank();
  void EndRank();
  void NewIncarnation();
  bool Reaches() const;

  // Calls of no size, and notices, go beside bulk transfers.
  struct Connection {
    sim::ConnectionPtr control, bulk;
    explicit operator bool() const { return control != nullptr; }
  };
  void Connect();
  void Broken();
  void Break();
  // Whether the rank still has this connection.
  bool Has(const Connection& connection) const {
    return connection.control == connection_.control && connection;
  }
  // Over the connection. `call` runs at the coordinator while it is up; Back sends its answer.
  void Call(double bytes, std::function<void()> call);
  void Back(const Connection& connection, double bytes, std::function<void()> run);

  void Feed(const session::Event& event);
  void RunForeground();
  // The training thread is busy for so long; then it goes on.
  void Busy(double seconds, double* sum, std::function<void()> then);

  void Do(const session::SeedPush& action);
  void Do(const session::PullWhole& action);
  void Do(const session::PushAgain& action);
  void Do(const session::Pull& action);
  void Do(const session::Wait&) {}
  void Do(const session::AgreeOnVersions& action);
  void Do(const session::RunStep& action);
  void Do(const session::Push& action);
  void Do(const session::AgreeOnMerge& action);
  void Do(const session::Merge& action);
  void Do(const session::Evaluate& action);
  void Do(const session::Draining&) {}
  void Do(const session::Finish& action);
  void Do(const session::Restart& action);
  // `first`: it is coded meanwhile.
  void SendPush(const RoundId& round, bool first);
  void PushAnswered(const RoundId& round, const std::optional<Answer>& answer);
  void PullRefused(int fragment, const Refuse& refuse);
  double UpBytes(int fragment, RoundKind kind) const;
  double Elements(int fragment) const;

  sim::EventLoop* const loop_;
  sim::Network* const network_;
  SimulatedCoordinator* const coordinator_;
  const Options options_;
  Sums sums_;

  // The machines, since they were lost last; and the rank, since it started last.
  int64_t machine_ = 0, rank_ = 0;
  bool alive_ = false, beats_ = false;
  int64_t incarnations_ = 0;
  std::string incarnation_, replaces_;
  absl::Time cut_until_ = absl::InfinitePast(), slow_until_ = absl::InfinitePast();
  double slow_ = 1;

  // The rank.
  bool runs_ = false, busy_ = false, finished_ = false, merged_ = false;
  session::Session session_;
  Connection connection_;
  std::deque<session::Action> foreground_;
  std::vector<Evaluation> evaluations_;
  std::map<int, RoundKind> kept_kind_;
  // Steps of this rank; those until each push, and those that counted.
  int64_t rank_steps_ = 0, rank_counted_ = 0;
  std::map<std::pair<int, int64_t>, int64_t> steps_at_push_;
  std::optional<absl::Time> waits_since_;
};

}  // namespace longhaul::coordinator
