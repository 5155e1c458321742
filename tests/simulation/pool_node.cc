#include "tests/simulation/pool_node.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/service/messages.h"

namespace longhaul::simulation {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kReturnWithin = absl::Seconds(30);

}  // namespace

void PoolNode::Start() {
  if (up()) return;
  process_ = std::make_shared<Process>(&world_->loop);
  supervisor_.emplace(
      Supervisor::Options{.ranks = options_.ranks, .progress = kProgress, .drain = kDrain},
      world_->loop.now());
  membership_ = std::make_unique<MembershipNode>(
      world_, coordinator_, process_,
      MembershipNode::Options{.pool = options_.name,
                              .node = options_.node,
                              .ranks = options_.ranks,
                              .new_incarnation = [this] { return absl::StrCat(++incarnations_); }},
      [this](const std::string& incarnation, const auto& assignment) {
        Assigned(incarnation, assignment);
      });
  world_->Trace(options_.name, absl::StrCat("starts as ", membership_->incarnation()));
  membership_->Start();
  Tick();
}

void PoolNode::Crash() {
  if (!up()) return;
  world_->Trace(options_.name, "ends");
  Do(Supervisor::KillRanks{});
  process_->End();
  process_.reset();
  membership_.reset();
  supervisor_.reset();
}

void PoolNode::Leave() {
  if (!up()) return;
  process_->Run([this] {
    world_->Trace(options_.name, "leaves");
    membership_->Leave(absl::ZeroDuration());
    Crash();
  });
}

void PoolNode::Drain() {
  if (!up()) return;
  process_->Run([this] {
    world_->Trace(options_.name, "drains");
    Perform(supervisor_->Drain(world_->loop.now()));
  });
}

void PoolNode::BreakConnection() {
  if (!up()) return;
  const int which = static_cast<int>(world_->random.Below(options_.ranks + 1));
  if (which < options_.ranks && ranks_ != nullptr) return ranks_->BreakConnection(which);
  membership_->BreakConnection();
}

void PoolNode::LoseRank() {
  if (ranks_ == nullptr) return;
  world_->Trace(options_.name, "loses a rank");
  ranks_->Lose(SomeRank());
}

void PoolNode::StandRankStill(absl::Duration time) {
  if (ranks_ == nullptr) return;
  ranks_->StandStill(RankThatDoes("stands still", time), time);
}

void PoolNode::DawdleRank(absl::Duration time) {
  if (ranks_ == nullptr) return;
  ranks_->Dawdle(RankThatDoes("dawdles", time), time);
}

int PoolNode::RankThatDoes(absl::string_view what, absl::Duration time) {
  const int rank = *stood_still_.insert(SomeRank()).first;
  world_->Trace(options_.name,
                absl::StrFormat("rank %d %s for %s", rank, what, absl::FormatDuration(time)));
  return rank;
}

void PoolNode::StandAgentStill(absl::Duration time) {
  if (!up()) return;
  world_->Trace(options_.name, absl::StrCat("agent stands still for ", absl::FormatDuration(time)));
  process_->StandStill(time);
}

void PoolNode::StandStill(absl::Duration time) {
  StandAgentStill(time);
  if (ranks_ == nullptr) return;
  for (int rank = 0; rank < options_.ranks; ++rank) ranks_->StandStill(rank, time);
}

std::string PoolNode::Describe() const {
  if (!up()) return absl::StrCat(options_.name, " down");
  const std::string& job = supervisor_->work().job;
  return absl::StrFormat("%s/%s %s%s", options_.name, membership_->incarnation(),
                         job.empty() ? "idle" : job, ranks_ == nullptr ? "" : ranks_->Describe());
}

void PoolNode::Tick() {
  Perform(supervisor_->Tick(world_->loop.now()));
  if (up()) process_->After(kTick, [this] { Tick(); });
}

void PoolNode::Assigned(const std::string& incarnation,
                        const std::optional<coordinator::Assignment>& assignment) {
  Supervisor::Work work{.incarnation = incarnation};
  if (assignment.has_value()) {
    work.job = assignment->job;
    work.ordinal = assignment->ordinal;
  }
  Perform(supervisor_->Assigned(work, world_->loop.now()));
}

void PoolNode::On(const RankGroup::Status& event) {
  if (event.rank == 0) membership_->SetProgress(event.status.step);
  Perform(supervisor_->Reported(event.rank, event.status, world_->loop.now()));
}

void PoolNode::On(const RankGroup::Evaluation& event) {
  membership_->AddEvaluation({.step = event.what.step,
                              .version = event.what.version,
                              .loss = 1,
                              .final = event.what.final,
                              .of_pool = event.what.of_pool});
}

void PoolNode::On(const RankGroup::Draining& event) {
  membership_->SetProgress(event.last_step);
  membership_->SetDraining();
}

void PoolNode::On(const RankGroup::Failure& event) {
  if (failed_group_ == group_) return;
  failed_group_ = group_;
  world_->Trace(options_.name, absl::StrCat("cannot do the job: ", event.fault.message()));
  // Never the same fault twice, so that the job waits for a pool that can do it.
  v1::JobError fault = event.fault;
  fault.set_code(absl::StrCat(fault.code(), "_", ++faults_));
  membership_->ReportFailure(coordinator::FromProto(fault));
  Perform(supervisor_->Failed());
}

void PoolNode::On(const RankGroup::Exit& event) {
  if (world_->trace)
    world_->Trace(options_.name, absl::StrFormat("rank %d ends with %d", event.rank, event.code));
  Perform(supervisor_->Exited(event.rank, event.code, world_->loop.now()));
  if (up() && supervisor_->completed()) membership_->SetFinished();
}

void PoolNode::Perform(const Supervisor::Actions& actions) {
  for (const Supervisor::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void PoolNode::Do(const Supervisor::StartRanks&) {
  Do(Supervisor::KillRanks{});
  if (world_->faults && world_->Chance(0.01)) {
    return Perform(supervisor_->StartFailed("no such program"));
  }
  const Supervisor::Work& work = supervisor_->work();
  stood_still_.clear();
  ranks_ = std::make_unique<RankGroup>(
      world_, coordinator_,
      RankGroup::Options{
          .job = work.job,
          .pool = options_.name,
          .incarnation = work.incarnation,
          .node = options_.node,
          .ranks = options_.ranks,
          .step_takes = options_.step_takes,
          .misconfigured = world_->faults && options_.misconfigured && world_->Chance(0.5)},
      [this, process = process_, group = group_](const RankGroup::Event& event) {
        process->After(absl::ZeroDuration(), [this, group, event] {
          if (group != group_) return;
          // As the agent: what ranks that leave report is of no use.
          const bool leaving = supervisor_->state() == Supervisor::State::kLeaving;
          if (leaving && !std::holds_alternative<RankGroup::Exit>(event)) return;
          std::visit([this](const auto& e) { On(e); }, event);
        });
      });
}

void PoolNode::Do(const Supervisor::KillRanks&) {
  ++group_;
  ranks_.reset();
}

void PoolNode::Do(const Supervisor::DrainRanks&) { ranks_->Drain(); }

void PoolNode::Do(const Supervisor::Rejoin& action) {
  world_->Trace(options_.name, absl::StrCat("comes back as a new incarnation: ", action.reason));
  CheckBlame(action.reason);
  membership_->Rejoin(action.delay);
}

// A rank is said to stand still only if it did.
void PoolNode::CheckBlame(const std::string& reason) const {
  if (!absl::StrContains(reason, "(limit ")) return;
  for (const int rank : stood_still_) {
    if (absl::StartsWith(reason, absl::StrFormat("rank %d ", rank))) return;
  }
  world_->checker.Violation(absl::StrCat("progress: of pool ", options_.name, " ", reason));
}

void PoolNode::Do(const Supervisor::Done& action) {
  membership_->Leave(action.had_work ? kReturnWithin : absl::ZeroDuration());
  Crash();
  world_->loop.After(world_->Between(absl::Milliseconds(100), absl::Seconds(8)),
                     [this] { Start(); });
}

}  // namespace longhaul::simulation
