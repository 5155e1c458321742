#include "tests/simulation/rank_group.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace longhaul::simulation {
namespace {

// Until the others, or the agent, notice the end of a process.
constexpr absl::Duration kNoticed = absl::Milliseconds(300);

}  // namespace

RankGroup::RankGroup(World* world, CoordinatorNode* coordinator, const Options& options,
                     OnEvent on_event)
    : world_(world),
      options_(options),
      on_event_(std::move(on_event)),
      process_(std::make_shared<Process>(&world->loop)),
      next_meeting_(options.ranks, 0) {
  // Without its data, or with values that become infinite.
  const int failing = static_cast<int>(world->random.Below(options.ranks));
  const int64_t fails_after = world->Chance(0.5) ? 0 : 1 + world->random.Below(10);
  RankHost* const host = this;
  for (int rank = 0; rank < options.ranks; ++rank) {
    RankNode::Options node{
        .id = {options.job, options.pool, options.incarnation, rank, options.ranks},
        .node = options.node,
        .prepare = world->Between(absl::Milliseconds(50), absl::Milliseconds(1300)),
        .step_takes = options.step_takes * (0.2 + 0.8 * world->random.Uniform())};
    if (options.misconfigured && rank == failing) node.fails_after = fails_after;
    ranks_.push_back(std::make_shared<RankNode>(world, coordinator, host, std::move(node)));
  }
  for (const auto& rank : ranks_) rank->Start();
}

RankGroup::~RankGroup() {
  process_->End();
  for (const auto& rank : ranks_) rank->Kill();
}

void RankGroup::Drain() {
  for (const auto& rank : ranks_) rank->Drain();
}

void RankGroup::Lose(int rank) {
  if (ranks_[rank]->ended()) return;
  ranks_[rank]->Kill();
  Gone(rank, 128 + 9);
}

std::string RankGroup::Describe() const {
  std::string text;
  for (const auto& rank : ranks_) {
    absl::StrAppendFormat(&text, " [%s step %d%s]",
                          session::SessionStateName(rank->session().state()),
                          rank->session().step(), rank->session().connected() ? "" : " offline");
  }
  return text;
}

void RankGroup::Collective(int rank, const std::string& name, std::vector<int64_t> values,
                           absl::Duration takes, Met met) {
  const int64_t order = next_meeting_[rank]++;
  Meeting& meeting = meetings_[order];
  if (meeting.arrived == 0) {
    meeting.name = name;
    meeting.values.resize(options_.ranks);
    meeting.met.resize(options_.ranks);
  }
  if (meeting.name != name) {
    return world_->checker.Violation(absl::StrFormat("ranks of pool %s disagree: '%s' and '%s'",
                                                     options_.pool, meeting.name, name));
  }
  meeting.values[rank] = std::move(values);
  meeting.met[rank] = std::move(met);
  ++meeting.arrived;
  if (gone_) return Fail(meeting);
  if (meeting.arrived < options_.ranks) return;
  process_->After(takes, [this, order] {
    const Meeting met = std::move(meetings_.extract(order).mapped());
    for (const auto& each : met.met) each(met.values);
  });
}

void RankGroup::Fail(Meeting& meeting) {
  for (Met& met : meeting.met) {
    if (!met) continue;
    process_->After(world_->Between(absl::ZeroDuration(), kNoticed),
                    [met = std::exchange(met, nullptr)] {
                      met(absl::UnavailableError("another rank is gone"));
                    });
  }
}

void RankGroup::Reported(int rank, const RankStatus& status) { on_event_(Status{rank, status}); }

void RankGroup::Evaluated(int rank, const session::Evaluate& evaluation) {
  if (rank == 0) on_event_(Evaluation{evaluation});
}

void RankGroup::Drains(int rank, int64_t last_step) {
  if (rank == 0) on_event_(Draining{last_step});
}

void RankGroup::Ended(int rank, const RankEnd& end) {
  if (end.code == kRankFailed) on_event_(Failure{*end.fault});
  process_->After(world_->Between(absl::ZeroDuration(), kNoticed),
                  [this, rank, code = end.code] { Gone(rank, code); });
}

void RankGroup::Gone(int rank, int code) {
  gone_ = true;
  for (auto& [order, meeting] : meetings_) {
    // Where all came, each has what it needs of the others.
    if (meeting.arrived < options_.ranks) Fail(meeting);
  }
  on_event_(Exit{rank, code});
}

}  // namespace longhaul::simulation
