#include "tests/simulation/membership_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul::simulation {
namespace {

constexpr int64_t kControlBytes = 100;

}  // namespace

MembershipNode::MembershipNode(World* world, CoordinatorNode* coordinator,
                               std::shared_ptr<Process> process, Options options, OnState on_state)
    : world_(world),
      coordinator_(coordinator),
      process_(std::move(process)),
      options_(std::move(options)),
      on_state_(std::move(on_state)),
      membership_(options_.join.nodes > 1, options_.new_incarnation(), options_.before) {}

MembershipNode::~MembershipNode() {
  if (connection_ == nullptr) return;
  world_->loop.After(absl::Milliseconds(100), [world = world_, dying = std::move(connection_)] {
    world->network.Break(dying);
  });
}

void MembershipNode::Turn() {
  ++turns_;
  urgent_ = false;
  const auto rejoin = std::exchange(rejoin_, std::nullopt);
  if (rejoin.has_value() && membership_.Rejoins(rejoin->first)) return BeginAnew(rejoin->second);
  if (!Connected()) return TurnAfter(world_->Between(absl::Milliseconds(100), absl::Seconds(1)));
  calling_ = true;
  membership_.joined() ? Beat() : Join();
}

void MembershipNode::TurnAfter(absl::Duration delay) {
  process_->After(delay, [this, turn = ++turns_] {
    if (turn == turns_) Turn();
  });
}

void MembershipNode::Urgent() {
  urgent_ = true;
  if (!calling_) TurnAfter(absl::ZeroDuration());
}

void MembershipNode::BeginAnew(absl::Duration delay) {
  // Sometimes the coordinator cannot be told.
  if (world_->Chance(0.7)) Leave(absl::ZeroDuration());
  StartAnew();
  TurnAfter(delay);
}

void MembershipNode::StartAnew() {
  Apply(membership_.BeginAnew(options_.new_incarnation()), std::nullopt, {});
}

bool MembershipNode::Connected() {
  if (connection_ == nullptr && coordinator_->up()) {
    connection_ = world_->network.Connect(
        options_.machine, kCoordinatorNode,
        [this, process = process_] { process->Run([this] { Broken(); }); }, nullptr);
  }
  return connection_ != nullptr;
}

void MembershipNode::Broken() {
  connection_ = nullptr;
  if (!std::exchange(calling_, false)) return;
  TurnAfter(world_->Between(absl::ZeroDuration(), absl::Seconds(1)));
}

void MembershipNode::Join() {
  coordinator::JoinPool join = options_.join;
  join.incarnation = incarnation();
  join.replaces = membership_.before();
  if (const auto running = membership_.running()) {
    join.running = running->incarnation;
    join.node_given = !join.node.has_value();
    join.node = running->node;
  }
  Call([coordinator = coordinator_, join, answer = Back({})] { coordinator->Join(join, answer); });
}

void MembershipNode::Beat() {
  coordinator::Heartbeat beat = next_;
  beat.pool = options_.join.pool;
  beat.incarnation = incarnation();
  beat.draining = membership_.draining();
  const CoordinatorNode::Answer answer = Back(beat);
  if (world_->faults && !beat.job.empty() && world_->liars.contains(beat.pool) &&
      world_->Chance(0.5))
    Lie(beat);
  Call([coordinator = coordinator_, beat, answer] { coordinator->Heartbeat(beat, answer); });
}

void MembershipNode::Lie(coordinator::Heartbeat& beat) {
  for (int64_t lies = 1 + world_->random.Below(2); lies > 0; --lies) {
    beat.evaluations.push_back({.step = static_cast<int64_t>(world_->random.Below(12)),
                                .version = 1 + static_cast<int64_t>(world_->random.Below(4)),
                                .loss = world_->checker.Reports(beat.pool)});
  }
}

void MembershipNode::Depart(absl::Duration return_within) {
  // How far the pool came.
  if (membership_.draining()) Beat();
  Leave(return_within);
}

void MembershipNode::Leave(absl::Duration return_within) {
  Call([coordinator = coordinator_,
        leave = coordinator::LeavePool{options_.join.pool, incarnation(), return_within}] {
    coordinator->Leave(leave);
  });
}

CoordinatorNode::Answer MembershipNode::Back(const coordinator::Heartbeat& sent) {
  return [this, world = world_, connection = connection_, process = process_,
          sent](const coordinator::Answer& answer) {
    world->network.Send(connection, kCoordinatorNode, kControlBytes, [this, process, answer, sent] {
      process->Run([this, answer, sent] { Answered(answer, sent); });
    });
  };
}

void MembershipNode::Call(std::function<void()> call) {
  if (connection_ != nullptr)
    world_->network.Send(connection_, options_.machine, kControlBytes, std::move(call));
}

void MembershipNode::Answered(const coordinator::Answer& answer,
                              const coordinator::Heartbeat& sent) {
  absl::Duration wait = world_->lease / 3;
  if (const auto* refuse = std::get_if<coordinator::Refuse>(&answer)) {
    wait = Refused(*refuse);
  } else {
    // What that heartbeat brought need not be repeated.
    next_.evaluations.erase(next_.evaluations.begin(),
                            next_.evaluations.begin() + sent.evaluations.size());
    if (sent.fault.has_value()) next_.fault.reset();
    const auto& grant = std::get<coordinator::GrantLease>(answer);
    const NodePlace place = grant.node.value_or(NodePlace());
    const bool changed = membership_.Granted(grant.assignment ? grant.assignment->job : "",
                                             grant.assignment ? grant.assignment->ordinal : 0,
                                             {place.incarnation, place.node});
    Apply(changed, grant.assignment, place);
  }
  calling_ = false;
  TurnAfter(urgent_ ? absl::ZeroDuration() : wait);
}

absl::Duration MembershipNode::Refused(const coordinator::Refuse& refuse) {
  switch (membership_.Refused(refuse.status)) {
    case AgentMembership::Remedy::kNone:
      break;
    case AgentMembership::Remedy::kDropReports:
      next_.evaluations.clear();
      next_.fault.reset();
      break;
    case AgentMembership::Remedy::kJoin:
      return absl::ZeroDuration();
    case AgentMembership::Remedy::kBeginAnew:
      world_->Trace(options_.join.pool, absl::StrCat("is refused: ", refuse.reason));
      StartAnew();
      break;
    case AgentMembership::Remedy::kLeaveGroup:
      Apply(membership_.LeaveGroup(), std::nullopt, {});
      break;
  }
  return world_->Between(absl::Milliseconds(100), absl::Seconds(1));
}

void MembershipNode::Apply(bool changed, const std::optional<coordinator::Assignment>& assignment,
                           const NodePlace& place) {
  place_ = place;
  const State state{membership_.of_ranks(), assignment, place};
  if (changed) {
    next_ = {.job = assignment ? assignment->job : ""};
    if (several()) next_.running = state.incarnation;
  }
  if (!assignment.has_value() || !assignment->stop) next_.stopped = false;
  on_state_(state);
}

void MembershipNode::SetProgress(const Subject& of, int64_t inner_step) {
  if (membership_.About(of)) next_.inner_step = inner_step;
}

void MembershipNode::AddEvaluation(const Subject& of, const coordinator::Evaluation& evaluation) {
  if (!membership_.About(of)) return;
  next_.evaluations.push_back(evaluation);
  Urgent();
}

void MembershipNode::ReportFailure(const Subject& of, const JobFault& fault) {
  if (!membership_.About(of)) return;
  next_.fault = fault;
  Urgent();
}

void MembershipNode::SetMerged(const Subject& of) {
  if (!membership_.About(of)) return;
  next_.merged = true;
  Urgent();
}

void MembershipNode::SetFinished(const Subject& of) {
  if (!membership_.About(of)) return;
  next_.finished = true;
  Urgent();
}

void MembershipNode::SetStopping(const Subject& of) {
  if (!membership_.About(of)) return;
  next_.stopping = true;
  Urgent();
}

void MembershipNode::SetStopped(const Subject& of) {
  if (!membership_.About(of) || next_.stopped) return;
  next_.stopped = true;
  Urgent();
}

void MembershipNode::ClearStopping() { next_.stopping = next_.stopped = false; }

void MembershipNode::SetDraining(const Subject& of) {
  if (membership_.Drain(of)) Urgent();
}

void MembershipNode::Rejoin(const Subject& of, absl::Duration delay) {
  rejoin_ = {of, delay};
  Urgent();
}

void MembershipNode::BreakConnection() {
  if (connection_ != nullptr) world_->network.Break(connection_);
}

}  // namespace longhaul::simulation
