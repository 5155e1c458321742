#include "tests/simulation/pool_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul::simulation {

void PoolNode::Start() {
  if (up_) return;
  up_ = true;
  draining_ = last_step_known_ = false;
  incarnation_ = absl::StrCat(++life_);
  spent_.clear();
  world_->Trace(options_.name, absl::StrCat("starts as ", incarnation_));
  Beat();
}

void PoolNode::Crash() {
  if (!up_) return;
  world_->Trace(options_.name, "crashes");
  StopRanks();
  up_ = joined_ = false;
  ++life_;
  work_.reset();
  reports_.clear();
  cannot_ = ended_early_ = false;
  if (connection_ == nullptr) return;
  // What was sent just before may still arrive.
  world_->loop.After(absl::Milliseconds(100), [this, dying = std::exchange(connection_, nullptr)] {
    world_->network.Break(dying);
  });
}

void PoolNode::Leave() {
  if (!up_) return;
  world_->Trace(options_.name, "leaves");
  Call([this, leave = coordinator::LeavePool{options_.name, incarnation_}] {
    coordinator_->Leave(leave);
  });
  Crash();
}

// As SIGTERM does: the ranks stop behind their step, what was pushed is brought to its end, the
// place is kept for a return.
void PoolNode::Drain() {
  if (!up_ || draining_) return;
  world_->Trace(options_.name, "drains");
  draining_ = true;
  for (const auto& rank : std::vector<std::shared_ptr<RankNode>>(ranks_)) rank->Drain();
  // The agent gives up after a while.
  Later(absl::Seconds(6), [this] { Drained(); });
  if (ranks_.empty()) Drained();
}

void PoolNode::RankDrains(const RankId& who) {
  if (who.rank != 0 || last_step_known_) return;
  last_step_known_ = true;
  Later(absl::ZeroDuration(), [this] { Beat(); });
}

void PoolNode::Drained() {
  Call([this, leave = coordinator::LeavePool{options_.name, incarnation_, absl::Seconds(30)}] {
    coordinator_->Leave(leave);
  });
  Crash();
  world_->loop.After(world_->Between(absl::Milliseconds(100), absl::Seconds(8)),
                     [this] { Start(); });
}

void PoolNode::BreakConnection() {
  const uint64_t which = world_->random.Below(ranks_.size() + 1);
  if (which < ranks_.size()) return ranks_[which]->BreakConnection();
  if (connection_ != nullptr) world_->network.Break(connection_);
}

std::string PoolNode::Describe() const {
  std::string text = absl::StrFormat("%s/%s %s", options_.name, incarnation_,
                                     up_ ? work_ ? work_->job : "idle" : "down");
  for (const auto& rank : ranks_) {
    absl::StrAppendFormat(&text, " [%s step %d%s]",
                          session::SessionStateName(rank->session().state()),
                          rank->session().step(), rank->session().connected() ? "" : " offline");
  }
  return text;
}

void PoolNode::Beat() {
  Later(world_->lease / 3, [this, number = ++beats_] {
    if (number == beats_) Beat();
  });
  if (connection_ == nullptr && coordinator_->up()) {
    connection_ = world_->network.Connect(
        options_.node, kCoordinatorNode,
        [this, life = life_] {
          if (life == life_) Broken();
        },
        nullptr);
  }
  if (connection_ == nullptr) return;
  const auto answer = [this, connection = connection_, life = life_,
                       reports = reports_.size()](const coordinator::Answer& given) {
    world_->network.Send(connection, kCoordinatorNode, 100, [this, life, given, reports] {
      if (life != life_) return;
      // What that heartbeat brought need not be repeated.
      if (std::holds_alternative<coordinator::GrantLease>(given))
        reports_.erase(reports_.begin(),
                       reports_.begin() + std::min(joined_ ? reports : 0, reports_.size()));
      Answered(given);
    });
  };
  if (!joined_) {
    return Call([this, answer,
                 join = coordinator::JoinPool{
                     .pool = options_.name,
                     .incarnation = incarnation_,
                     .ranks = options_.ranks,
                     .capabilities = {"model:synthetic", "codec:fp32"}}] {
      coordinator_->Join(join, answer);
    });
  }
  coordinator::Heartbeat beat{.pool = options_.name, .incarnation = incarnation_};
  if (work_) beat.job = work_->job;
  if (!ranks_.empty()) beat.inner_step = ranks_[0]->session().step();
  beat.draining = last_step_known_;
  beat.finished = Finished();
  beat.evaluations = reports_;
  // Never the same fault twice, so that the job waits for a pool that can do it.
  if (cannot_) beat.fault = JobFault{.code = absl::StrCat("FAULT_", beats_)};
  Call([this, answer, beat] { coordinator_->Heartbeat(beat, answer); });
}

// Every rank came to the job's end by itself.
bool PoolNode::Finished() const {
  if (ranks_.empty()) return false;
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    return rank->session().state() == session::SessionState::kEnded &&
           rank->session().step() >= coordinator_->StepsOf(work_->job);
  });
}

void PoolNode::Broken() { connection_ = nullptr; }

void PoolNode::Answered(const coordinator::Answer& answer) {
  if (const auto* grant = std::get_if<coordinator::GrantLease>(&answer)) {
    joined_ = true;
    return Assigned(grant->assignment);
  }
  const auto& refuse = std::get<coordinator::Refuse>(answer);
  joined_ = false;
  if (absl::IsAborted(refuse.status)) RankWantsRestart({}, refuse.reason);
}

void PoolNode::Assigned(const std::optional<coordinator::Assignment>& assignment) {
  if (draining_) return;
  const bool same =
      assignment.has_value() == work_.has_value() &&
      (!work_ || (work_->job == assignment->job && work_->ordinal == assignment->ordinal));
  // Ranks that ended, though the job is still theirs, are started again.
  if (same && (!work_ || !ended_early_)) return;
  StopRanks();
  work_ = assignment;
  ended_early_ = cannot_ = false;
  if (!work_) return;
  if (spent_.contains(work_->job)) return RankWantsRestart({}, "its ranks begin again");
  if (world_->faults && options_.misconfigured && world_->Chance(0.5)) {
    cannot_ = true;
    return;
  }
  Later(world_->Between(absl::Milliseconds(50), absl::Seconds(1)), [this, run = run_] {
    if (run == run_ && work_) StartRanks();
  });
}

void PoolNode::RankEnded(const RankId& who, session::Extent done) {
  if (done != session::Extent::kNothing) spent_.insert(who.job);
  const auto all_ended = [this] {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
      return rank->session().state() == session::SessionState::kEnded;
    });
  };
  if (!all_ended()) {
    // The others soon find that they wait for a rank that is gone.
    return Later(absl::Seconds(2), [this, who, all_ended, run = run_] {
      if (run == run_ && !draining_ && !all_ended()) RankWantsRestart(who, "a rank is gone");
    });
  }
  if (draining_) return Later(absl::ZeroDuration(), [this] { Drained(); });
  if (Finished()) return Later(absl::ZeroDuration(), [this] { Beat(); });
  Later(absl::Seconds(1), [this, run = run_] { ended_early_ = run == run_; });
}

void PoolNode::StartRanks() {
  ++run_;
  next_meeting_.assign(options_.ranks, 0);
  for (int rank = 0; rank < options_.ranks; ++rank) {
    RankId id{work_->job, options_.name, incarnation_, rank, options_.ranks};
    ranks_.push_back(std::make_shared<RankNode>(world_, coordinator_, this, std::move(id),
                                                options_.node, options_.step_takes));
  }
  for (const auto& rank : ranks_) {
    Later(world_->Between(absl::ZeroDuration(), absl::Milliseconds(300)), [this, rank, run = run_] {
      if (run == run_) rank->Start();
    });
  }
}

void PoolNode::StopRanks() {
  ++run_;
  for (const auto& rank : ranks_) rank->Stop();
  ranks_.clear();
  meetings_.clear();
}

void PoolNode::Collective(int rank, const std::string& name, std::vector<int64_t> values,
                          absl::Duration takes, std::function<void(const Gathered&)> done) {
  const int64_t order = next_meeting_[rank]++;
  Meeting& meeting = meetings_[order];
  if (meeting.arrived == 0) {
    meeting.name = name;
    meeting.values.resize(options_.ranks);
    meeting.done.resize(options_.ranks);
  }
  if (meeting.name != name) {
    return world_->checker.Violation(absl::StrFormat("ranks of pool %s disagree: '%s' and '%s'",
                                                     options_.name, meeting.name, name));
  }
  meeting.values[rank] = std::move(values);
  meeting.done[rank] = std::move(done);
  if (++meeting.arrived < options_.ranks) return;
  Later(takes, [this, order, run = run_] {
    if (run != run_) return;
    const Meeting met = std::move(meetings_.extract(order).mapped());
    for (const auto& each : met.done) each(met.values);
  });
}

void PoolNode::RankEvaluated(const RankId& who, const session::Evaluate& evaluation) {
  if (who.rank != 0) return;
  ++evaluations_;
  reports_.push_back({.step = evaluation.step,
                      .version = evaluation.version,
                      .loss = 1,
                      .final = evaluation.final});
}

// The agent stops all ranks and comes as another incarnation, most often with the old lease given
// back.
void PoolNode::RankWantsRestart(const RankId&, const std::string& reason) {
  world_->Trace(options_.name, absl::StrCat("restarts: ", reason));
  const bool orderly = world_->Chance(0.7);
  // Not from within the rank that asks for it.
  Later(absl::ZeroDuration(), [this, orderly] {
    orderly ? Leave() : Crash();
    world_->loop.After(absl::Milliseconds(200), [this] { Start(); });
  });
}

void PoolNode::Later(absl::Duration delay, std::function<void()> run) {
  world_->loop.After(delay, [this, life = life_, run = std::move(run)] {
    if (life == life_) run();
  });
}

void PoolNode::Call(std::function<void()> call) {
  if (connection_ != nullptr)
    world_->network.Send(connection_, options_.node, 100, std::move(call));
}

}  // namespace longhaul::simulation
