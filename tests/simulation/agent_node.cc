#include "tests/simulation/agent_node.h"

#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/names.h"
#include "coordinator/service/messages.h"

namespace longhaul::simulation {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kReturnWithin = absl::Seconds(30);

}  // namespace

AgentNode::AgentNode(World* world, CoordinatorNode* coordinator, Site* site, AgentOptions options)
    : world_(world),
      coordinator_(coordinator),
      site_(site),
      options_(std::move(options)),
      name_(options_.nodes == 1 ? options_.pool
                                : absl::StrCat(options_.pool, "@", options_.machine)) {}

void AgentNode::Start() {
  if (up()) return;
  process_ = std::make_shared<Process>(&world_->loop);
  supervisor_.emplace(
      Supervisor::Options{
          .ranks = options_.ranks, .progress = kProgress, .drain = kDrain, .nodes = options_.nodes},
      world_->loop.now());
  place_ = {.ranks = options_.ranks, .ranks_of_node = {options_.ranks}};
  const bool several = options_.nodes > 1;
  coordinator::JoinPool join{.pool = options_.pool,
                             .ranks = options_.ranks,
                             .capabilities = {"model:synthetic", "codec:fp32", "sync:quorum"}};
  if (!options_.earlier) join.capabilities.insert(kStopsWhenAsked);
  if (several || options_.ranks > 1) {
    token_ = absl::StrCat(name_, " ", incarnations_);
    rendezvous_ = std::make_unique<RendezvousNode>(world_, process_, options_.machine, token_);
    rendezvous_address_ = site_->Serve(options_.machine, rendezvous_.get());
  }
  if (several) {
    join.nodes = options_.nodes;
    join.node = options_.node;
    join.host = absl::StrCat("machine", options_.machine);
    join.rendezvous = rendezvous_address_;
    join.token = token_;
  }
  membership_ = std::make_unique<MembershipNode>(
      world_, coordinator_, process_,
      MembershipNode::Options{.join = join,
                              .machine = options_.machine,
                              .before = record_,
                              .new_incarnation =
                                  [this, several] {
                                    ++incarnations_;
                                    record_ =
                                        several ? absl::StrCat(options_.machine, ".", incarnations_)
                                                : absl::StrCat(incarnations_);
                                    return record_;
                                  }},
      [this](const MembershipNode::State& state) { Assigned(state); });
  world_->Trace(name_, absl::StrCat("starts as ", membership_->incarnation()));
  membership_->Start();
  Tick();
}

void AgentNode::Crash(bool silently) {
  if (!up()) return;
  world_->Trace(name_, silently ? "loses its power" : "ends");
  // A record of the time before the machine started is not used. Sometimes the disk has none.
  if (silently || options_.earlier || world_->Chance(0.2)) record_.clear();
  if (silently && ranks_ != nullptr) ranks_->LosePower();
  Do(Supervisor::KillRanks{});
  process_->End();
  process_.reset();
  membership_.reset();
  if (rendezvous_ != nullptr) site_->EndServing(rendezvous_address_);
  rendezvous_.reset();
  supervisor_.reset();
}

void AgentNode::Leave() {
  if (!up()) return;
  process_->Run([this] {
    world_->Trace(name_, "leaves");
    membership_->Depart(absl::ZeroDuration());
    Crash();
  });
}

void AgentNode::Drain() {
  if (!up()) return;
  process_->Run([this] {
    world_->Trace(name_, "drains");
    Perform(supervisor_->Drain(world_->loop.now()));
  });
}

void AgentNode::BreakConnection() {
  if (!up()) return;
  const int which = static_cast<int>(world_->random.Below(options_.ranks + 1));
  if (which < options_.ranks && ranks_ != nullptr) return ranks_->BreakConnection(which);
  membership_->BreakConnection();
}

void AgentNode::LoseRank() {
  if (ranks_ == nullptr) return;
  world_->Trace(name_, "loses a rank");
  ranks_->Lose(SomeRank());
}

void AgentNode::StandRankStill(absl::Duration time) {
  if (ranks_ == nullptr) return;
  ranks_->StandStill(RankThatDoes("stands still", time), time);
}

void AgentNode::DawdleRank(absl::Duration time) {
  if (ranks_ == nullptr) return;
  ranks_->Dawdle(RankThatDoes("dawdles", time), time);
}

int AgentNode::RankThatDoes(absl::string_view what, absl::Duration time) {
  const int rank = *stood_still_.insert(SomeRank()).first;
  world_->Trace(name_,
                absl::StrFormat("rank %d %s for %s", rank, what, absl::FormatDuration(time)));
  return rank;
}

void AgentNode::StandAgentStill(absl::Duration time) {
  if (!up()) return;
  world_->Trace(name_, absl::StrCat("agent stands still for ", absl::FormatDuration(time)));
  process_->StandStill(time);
}

void AgentNode::StandStill(absl::Duration time) {
  StandAgentStill(time);
  if (ranks_ == nullptr) return;
  for (int rank = 0; rank < options_.ranks; ++rank) ranks_->StandStill(rank, time);
}

std::string AgentNode::Describe() const {
  if (!up()) return absl::StrCat(name_, " down");
  const std::string& job = supervisor_->work().job;
  return absl::StrFormat("%s/%s %s%s", name_, membership_->incarnation(),
                         job.empty() ? "idle" : job, ranks_ == nullptr ? "" : ranks_->Describe());
}

void AgentNode::Tick() {
  Perform(supervisor_->Tick(world_->loop.now()));
  if (up()) process_->After(kTick, [this] { Tick(); });
}

void AgentNode::Assigned(const MembershipNode::State& state) {
  if (state.place.ranks > 0) place_ = state.place;
  Supervisor::Work work{.incarnation = state.incarnation, .first_rank = place_.first_rank};
  if (state.assignment.has_value() && !state.incarnation.empty()) {
    work.job = state.assignment->job;
    work.ordinal = state.assignment->ordinal;
    work.stop = state.assignment->stop;
  }
  Perform(supervisor_->Assigned(work, world_->loop.now()));
}

MembershipNode::Subject AgentNode::Subject() const {
  const Supervisor::Work& work = supervisor_->work();
  return {work.incarnation, work.job, work.ordinal};
}

void AgentNode::On(const RankGroup::Status& event) {
  if (place_.first_rank + event.rank == 0) membership_->SetProgress(Subject(), event.status.step);
  Perform(supervisor_->Reported(event.rank, event.status, world_->loop.now()));
}

void AgentNode::On(const RankGroup::AllMerged&) { membership_->SetMerged(Subject()); }

void AgentNode::On(const RankGroup::Evaluation& event) {
  double loss = world_->checker.Reports(options_.pool);
  const auto diverges = world_->diverges.find(JobNameOf(Subject().job));
  if (diverges != world_->diverges.end() && !event.what.of_pool &&
      (event.what.final || event.what.version >= diverges->second))
    loss = std::numeric_limits<double>::infinity();
  membership_->AddEvaluation(Subject(), {.step = event.what.step,
                                         .version = event.what.version,
                                         .loss = loss,
                                         .final = event.what.final,
                                         .of_pool = event.what.of_pool});
}

void AgentNode::On(const RankGroup::Draining& event) {
  membership_->SetProgress(Subject(), event.last_step);
  if (supervisor_->state() == Supervisor::State::kDraining) {
    membership_->SetDraining(Subject());
  } else {
    membership_->SetStopping(Subject());
  }
}

void AgentNode::On(const RankGroup::Failure& event) {
  if (failed_group_ == group_) return;
  failed_group_ = group_;
  world_->Trace(name_, absl::StrCat("cannot do the job: ", event.fault.message()));
  // Never the same fault twice, so that the job waits for a pool that can do it.
  v1::JobError fault = event.fault;
  fault.set_code(absl::StrCat(fault.code(), "_", name_, "_", ++faults_));
  membership_->ReportFailure(Subject(), coordinator::FromProto(fault));
  Perform(supervisor_->Failed());
}

void AgentNode::On(const RankGroup::Exit& event) {
  if (world_->trace)
    world_->Trace(name_, absl::StrFormat("rank %d ends with %d", event.rank, event.code));
  Perform(supervisor_->Exited(event.rank, event.code, world_->loop.now()));
  if (up() && supervisor_->completed()) membership_->SetFinished(Subject());
}

void AgentNode::Perform(const Supervisor::Actions& actions) {
  for (const Supervisor::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (up() && supervisor_->stopped()) membership_->SetStopped(Subject());
}

void AgentNode::Do(const Supervisor::StartRanks&) {
  Do(Supervisor::KillRanks{});
  if (world_->faults && world_->Chance(0.01)) {
    return Perform(supervisor_->StartFailed("no such program"));
  }
  const Supervisor::Work& work = supervisor_->work();
  membership_->ClearStopping();
  stood_still_.clear();
  ranks_ = std::make_unique<RankGroup>(
      world_, coordinator_, site_,
      RankGroup::Options{
          .first = {work.job, options_.pool, work.incarnation, place_.first_rank, place_.ranks},
          .machine = options_.machine,
          .ranks = options_.ranks,
          .nodes = options_.nodes,
          .meeting = PrepareMeeting(),
          .prepare_more = options_.prepare_more,
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

// As the agent's.
RankGroup::Meeting AgentNode::PrepareMeeting() {
  if (rendezvous_ == nullptr) return {};
  const Supervisor::Work& work = supervisor_->work();
  const bool alone = options_.nodes == 1;
  const uint64_t generation =
      alone ? group_ : HashOf(absl::StrCat(work.incarnation, "/", work.job));
  if (alone || place_.node == 0) rendezvous_->StartGeneration(generation, place_.ranks);
  if (alone) return {rendezvous_address_, token_, generation};
  return {place_.rendezvous, place_.token, generation};
}

void AgentNode::Do(const Supervisor::KillRanks&) {
  ++group_;
  ranks_.reset();
}

void AgentNode::Do(const Supervisor::DrainRanks&) { ranks_->Drain(); }

void AgentNode::Do(const Supervisor::Rejoin& action) {
  world_->Trace(name_, absl::StrCat("comes back as a new incarnation: ", action.reason));
  CheckBlame(action.reason);
  membership_->Rejoin(Subject(), action.delay);
}

// A rank is said to stand still only if it did.
void AgentNode::CheckBlame(const std::string& reason) const {
  if (!absl::StrContains(reason, "(limit ")) return;
  for (const int rank : stood_still_) {
    if (absl::StartsWith(reason, absl::StrFormat("rank %d ", place_.first_rank + rank))) return;
  }
  world_->checker.Violation(absl::StrCat("progress: of ", name_, " ", reason));
}

void AgentNode::Do(const Supervisor::Done& action) {
  membership_->Depart(action.had_work ? kReturnWithin : absl::ZeroDuration());
  Crash();
  world_->loop.After(world_->Between(absl::Milliseconds(100), absl::Seconds(8)),
                     [this] { Start(); });
}

}  // namespace longhaul::simulation
