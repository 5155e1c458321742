#include "coordinator/simulation/simulated_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kRetry = absl::Seconds(1);
// Of the lease, between two heartbeats. Agents send three in that time; here none is lost.
constexpr double kBeatEach = 0.8;

template <typename... Kinds>
bool IsOneOf(const session::Action& action) {
  return (std::holds_alternative<Kinds>(action) || ...);
}

bool IsForeground(const session::Action& action) {
  return IsOneOf<session::AgreeOnVersions, session::RunStep, session::Push, session::AgreeOnMerge,
                 session::Merge, session::Evaluate, session::Draining, session::Finish,
                 session::Restart>(action);
}

// What is tried again: the agent is about to join, the store is being opened.
bool Passes(const Refuse& refuse) {
  return refuse.reason == "POOL_UNKNOWN" || absl::IsUnavailable(refuse.status) ||
         absl::IsResourceExhausted(refuse.status);
}

}  // namespace

SimulatedPool::SimulatedPool(sim::EventLoop* loop, sim::Network* network,
                             SimulatedCoordinator* coordinator, Options options)
    : loop_(loop), network_(network), coordinator_(coordinator), options_(std::move(options)) {}

void SimulatedPool::Later(absl::Duration delay, std::function<void()> run) {
  loop_->After(delay, [this, machine = machine_, run = std::move(run)] {
    if (machine == machine_) run();
  });
}

// --- The agent.

void SimulatedPool::Start() {
  alive_ = true;
  NewIncarnation();
}

void SimulatedPool::NewIncarnation() {
  EndRank();
  replaces_ = incarnation_;
  incarnation_ = absl::StrFormat("%016x", ++incarnations_);
  Join();
  if (!std::exchange(beats_, true)) Later(absl::ZeroDuration(), [this] { Beat(); });
}

bool SimulatedPool::Reaches() const { return coordinator_->up() && loop_->now() >= cut_until_; }

void SimulatedPool::Join() {
  if (!Reaches()) return;
  Answered(coordinator_->Step(
      JoinPool{.pool = options_.name, .incarnation = incarnation_, .replaces = replaces_}));
}

void SimulatedPool::Beat() {
  SendBeat();
  Later(kBeatEach * coordinator_->options().lease, [this] { Beat(); });
}

void SimulatedPool::SendBeat() {
  if (!Reaches()) return;
  coordinator::Heartbeat beat{.pool = options_.name, .incarnation = incarnation_};
  if (runs_ || finished_) {
    beat.job = kSimulatedJob;
    beat.inner_step = session_.step();
    beat.merged = merged_;
    beat.finished = finished_;
    beat.evaluations = evaluations_;
  }
  const std::optional<Answer> answer = coordinator_->Step(beat);
  if (RefusalIn(answer) == nullptr) evaluations_.clear();
  Answered(answer);
}

void SimulatedPool::Answered(const std::optional<Answer>& answer) {
  if (const Refuse* refuse = RefusalIn(answer)) {
    if (refuse->reason == "POOL_UNKNOWN") return Later(absl::ZeroDuration(), [this] { Join(); });
    if (refuse->reason == "POOL_LOST" || refuse->reason == "POOL_REPLACED")
      return Later(kRetry, [this] { NewIncarnation(); });
    return Later(std::max(refuse->retry_after, kRetry), [this] { Join(); });
  }
  if (!answer.has_value() || !std::holds_alternative<GrantLease>(*answer)) return;
  const bool assigned = std::get<GrantLease>(*answer).assignment.has_value();
  if (assigned && !runs_ && !finished_) BeginRank();
  if (!assigned && runs_) EndRank();
}

void SimulatedPool::BeginRank() {
  runs_ = true;
  ++sums_.starts;
  Later(options_.prepare, [this, rank = rank_] {
    if (rank == rank_ && runs_) Connect();
  });
}

void SimulatedPool::EndRank() {
  ++rank_;
  runs_ = busy_ = finished_ = merged_ = false;
  waits_since_.reset();
  session_ = session::Session();
  foreground_.clear();
  evaluations_.clear();
  steps_at_push_.clear();
  kept_kind_.clear();
  rank_steps_ = rank_counted_ = 0;
  if (!connection_) return;
  if (coordinator_->up()) coordinator_->Unwatch(options_.name);
  Break();
  connection_ = {};
}

void SimulatedPool::Lose(absl::Duration back_after) {
  if (!alive_) return;
  ++sums_.losses;
  EndRank();
  ++machine_;
  alive_ = beats_ = false;
  Later(back_after, [this] { Start(); });
}

void SimulatedPool::SlowDown(double factor, absl::Duration lasts) {
  slow_ = factor;
  slow_until_ = loop_->now() + lasts;
}

void SimulatedPool::CutLink(absl::Duration lasts) {
  cut_until_ = std::max(cut_until_, loop_->now() + lasts);
  Break();
}

void SimulatedPool::Counted(const std::string& incarnation, int fragment, int64_t version) {
  if (incarnation != incarnation_) return;
  const auto pushed = steps_at_push_.find({fragment, version});
  if (pushed == steps_at_push_.end()) return;
  if (pushed->second > rank_counted_) {
    sums_.counted_steps += pushed->second - rank_counted_;
    rank_counted_ = pushed->second;
  }
  steps_at_push_.erase(pushed);
}

// --- The connection.

void SimulatedPool::Connect() {
  const auto retry = [this, rank = rank_] {
    if (rank == rank_) Connect();
  };
  if (!runs_) return;
  if (!Reaches()) return Later(kRetry, retry);
  const auto broken = [this, machine = machine_, rank = rank_] {
    if (machine == machine_ && rank == rank_ && connection_) Broken();
  };
  connection_ = {network_->Connect(options_.node, kCoordinatorNode, broken, nullptr),
                 network_->Connect(options_.node, kCoordinatorNode, broken, nullptr)};
  Call(0, [this, connection = connection_] {
    coordinator_->Watch(options_.name, incarnation_,
                        [this, connection](const session::Event& event) {
                          Back(connection, 0, [this, event] {
                            const auto* refused = std::get_if<session::PlanRefused>(&event);
                            if (refused != nullptr && Passes({refused->status, refused->reason}))
                              return Break();
                            Feed(event);
                          });
                        });
  });
}

void SimulatedPool::Break() {
  const Connection broken = connection_;
  if (!broken) return;
  network_->Break(broken.control);
  network_->Break(broken.bulk);
}

void SimulatedPool::Broken() {
  Break();
  connection_ = {};
  if (coordinator_->up()) coordinator_->Unwatch(options_.name);
  Feed(session::Disconnected{});
  Later(kRetry, [this, rank = rank_] {
    if (rank == rank_) Connect();
  });
}

void SimulatedPool::Call(double bytes, std::function<void()> call) {
  if (!connection_) return;
  network_->Send(bytes > 0 ? connection_.bulk : connection_.control, options_.node,
                 static_cast<int64_t>(bytes), [this, call = std::move(call)] {
                   if (coordinator_->up()) call();
                 });
}

void SimulatedPool::Back(const Connection& connection, double bytes, std::function<void()> run) {
  network_->Send(bytes > 0 ? connection.bulk : connection.control, kCoordinatorNode,
                 static_cast<int64_t>(bytes),
                 [this, machine = machine_, rank = rank_, run = std::move(run)] {
                   if (machine == machine_ && rank == rank_) run();
                 });
}

// --- The rank.

void SimulatedPool::Feed(const session::Event& event) {
  if (!runs_) return;
  for (session::Action& action : session_.Step(event, loop_->now())) {
    if (IsForeground(action)) {
      foreground_.push_back(std::move(action));
    } else {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
  }
  RunForeground();
}

void SimulatedPool::RunForeground() {
  while (runs_ && !busy_ && !foreground_.empty()) {
    if (waits_since_.has_value()) {
      sums_.wait += absl::ToDoubleSeconds(loop_->now() - *waits_since_);
      waits_since_.reset();
    }
    const session::Action action = std::move(foreground_.front());
    foreground_.pop_front();
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (runs_ && !busy_ && !waits_since_.has_value() &&
      session_.state() == session::SessionState::kBlocked)
    waits_since_ = loop_->now();
}

void SimulatedPool::Busy(double seconds, double* sum, std::function<void()> then) {
  busy_ = true;
  Later(absl::Seconds(seconds), [this, seconds, sum, rank = rank_, then = std::move(then)] {
    if (rank != rank_) return;
    *sum += seconds;
    busy_ = false;
    then();
    RunForeground();
  });
}

double SimulatedPool::Elements(int fragment) const {
  return static_cast<double>(coordinator_->options().exchange.fragments[fragment].elements);
}

// The seed is exact.
double SimulatedPool::UpBytes(int fragment, RoundKind kind) const {
  if (kind == RoundKind::kSeed) return 4 * Elements(fragment);
  return coordinator_->options().exchange.fragments[fragment].up_bytes;
}

void SimulatedPool::Do(const session::AgreeOnVersions& action) {
  Feed(session::VersionsAgreed{{action.versions}});
}

void SimulatedPool::Do(const session::RunStep& action) {
  const double slow = loop_->now() < slow_until_ ? slow_ : 1;
  Busy(slow * options_.rates.step_seconds, &sums_.compute, [this, step = action.step] {
    ++sums_.steps;
    ++rank_steps_;
    Feed(session::StepDone{step, false, session_.called_step()});
  });
}

void SimulatedPool::Do(const session::Push& action) {
  kept_kind_[action.fragment] = action.kind;
  steps_at_push_[{action.fragment, action.version}] = rank_steps_;
  Busy(Elements(action.fragment) / options_.rates.copy, &sums_.copying, [this, action] {
    SendPush({action.fragment, action.version, action.kind}, true);
  });
}

void SimulatedPool::Do(const session::AgreeOnMerge& action) {
  Feed(session::MergeAgreed{action.here});
}

void SimulatedPool::Do(const session::Merge& action) {
  Busy(Elements(action.fragment) / options_.rates.copy, &sums_.copying,
       [this, fragment = action.fragment] { Feed(session::Merged{fragment}); });
}

void SimulatedPool::Do(const session::Evaluate& action) {
  merged_ |= action.final;
  Busy(absl::ToDoubleSeconds(options_.evaluation), &sums_.evaluation, [this, action] {
    evaluations_.push_back({.step = action.step,
                            .version = action.version,
                            .loss = 1,
                            .tokens = 1,
                            .final = action.final,
                            .of_pool = action.of_pool});
    SendBeat();
  });
}

void SimulatedPool::Do(const session::Finish&) {
  // It has nothing more to do; its agent stays.
  if (session_.step() < coordinator_->options().job.steps) return NewIncarnation();
  std::vector<Evaluation> last = std::move(evaluations_);
  EndRank();
  evaluations_ = std::move(last);
  finished_ = merged_ = true;
  SendBeat();
}

void SimulatedPool::Do(const session::Restart&) {
  EndRank();
  Later(kRetry, [this] { NewIncarnation(); });
}

// --- Transfers.

void SimulatedPool::Do(const session::SeedPush& action) {
  for (const int fragment : action.fragments) SendPush({fragment, 0, RoundKind::kSeed}, false);
}

void SimulatedPool::Do(const session::PushAgain& action) {
  const auto kept = kept_kind_.find(action.fragment);
  if (kept != kept_kind_.end()) SendPush({action.fragment, action.version, kept->second}, false);
}

void SimulatedPool::SendPush(const RoundId& round, bool first) {
  const double bytes = UpBytes(round.fragment, round.kind);
  // It is sent while it is coded, so the slower of the two counts.
  const double coding = first ? Elements(round.fragment) / options_.rates.code : 0;
  const double sending = std::isfinite(options_.rates.link.up) ? bytes / options_.rates.link.up : 0;
  const auto send = [this, round, bytes] {
    sums_.bytes_up += bytes;
    Call(bytes, [this, connection = connection_, round] {
      const std::optional<Answer> answer = coordinator_->Step(
          ContributionComplete{{kSimulatedJob, options_.name, incarnation_, round}});
      Back(connection, 0, [this, round, answer] { PushAnswered(round, answer); });
    });
  };
  if (coding <= sending) return send();
  Later(absl::Seconds(coding - sending), [this, rank = rank_, connection = connection_, send] {
    if (rank == rank_ && Has(connection)) send();
  });
}

void SimulatedPool::PushAnswered(const RoundId& round, const std::optional<Answer>& answer) {
  const Refuse* const refuse = RefusalIn(answer);
  if (refuse == nullptr) return Feed(session::PushDone{round.fragment, round.version});
  if (!Passes(*refuse)) {
    return Feed(session::PushRefused{round.fragment, round.version, refuse->status, refuse->reason,
                                     refuse->have});
  }
  Later(kRetry, [this, rank = rank_, round] {
    if (rank == rank_) SendPush(round, false);
  });
}

void SimulatedPool::PullRefused(int fragment, const Refuse& refuse) {
  if (Passes(refuse)) return Break();
  Feed(session::PullRefused{fragment, refuse.status, refuse.reason});
}

void SimulatedPool::Do(const session::PullWhole& action) {
  Call(0, [this, connection = connection_, fragment = action.fragment] {
    const auto pulled = coordinator_->Pull(options_.name, incarnation_, fragment, -1);
    const double bytes = pulled.refused.has_value() ? 0 : 4 * Elements(fragment);
    Back(connection, bytes, [this, fragment, pulled, bytes] {
      if (pulled.refused.has_value()) return PullRefused(fragment, *pulled.refused);
      sums_.bytes_down += bytes;
      Feed(session::PulledWhole{fragment, pulled.version});
    });
  });
}

void SimulatedPool::Do(const session::Pull& action) {
  Call(0, [this, connection = connection_, fragment = action.fragment, version = action.version] {
    const auto pulled = coordinator_->Pull(options_.name, incarnation_, fragment, version);
    const double coded = coordinator_->options().exchange.fragments[fragment].down_bytes;
    const double bytes = pulled.refused.has_value() ? 0 : coded;
    Back(connection, bytes, [this, fragment, pulled, bytes] {
      if (pulled.refused.has_value()) return PullRefused(fragment, *pulled.refused);
      sums_.bytes_down += bytes;
      // It is decoded while it comes.
      const plan::PoolRates& rates = options_.rates;
      const double coming = std::isfinite(rates.link.down) ? bytes / rates.link.down : 0;
      const double rest = std::max(0.0, Elements(fragment) / rates.decode - coming);
      const auto pulled_at = [this, rank = rank_, fragment, version = pulled.version,
                              connection = connection_] {
        if (rank == rank_ && Has(connection)) Feed(session::Pulled{fragment, version});
      };
      if (rest <= 0) return pulled_at();
      Later(absl::Seconds(rest), pulled_at);
    });
  });
}

}  // namespace longhaul::coordinator
