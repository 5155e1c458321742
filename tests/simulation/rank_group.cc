#include "tests/simulation/rank_group.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace longhaul::simulation {
namespace {

// Until the agent notices the end of a process.
constexpr absl::Duration kNoticedByAgent = absl::Milliseconds(300);

const char* NameOf(session::SessionState state) {
  switch (state) {
    case session::SessionState::kConnecting:
      return "connecting";
    case session::SessionState::kStarting:
      return "starting";
    case session::SessionState::kAgreeing:
      return "agreeing";
    case session::SessionState::kTraining:
      return "training";
    case session::SessionState::kBlocked:
      return "blocked";
    case session::SessionState::kMerging:
      return "merging";
    case session::SessionState::kDraining:
      return "draining";
    case session::SessionState::kEnded:
      return "ended";
  }
  return "unknown";
}

}  // namespace

RankGroup::RankGroup(World* world, CoordinatorNode* coordinator, Site* site, const Options& options,
                     OnEvent on_event)
    : world_(world),
      options_(options),
      on_event_(std::move(on_event)),
      process_(std::make_shared<Process>(&world->loop)) {
  // Without its data, or with values that become infinite.
  const int failing = static_cast<int>(world->random.Below(options.ranks));
  const int64_t fails_after = world->Chance(0.5) ? 0 : 1 + world->random.Below(10);
  RankHost* const host = this;
  for (int rank = 0; rank < options.ranks; ++rank) {
    RankNode::Options node{
        .id = options.first,
        .machine = options.machine,
        .nodes = options.nodes,
        .meeting = options.meeting,
        .prepare =
            options.prepare_more + world->Between(absl::Milliseconds(50), absl::Milliseconds(1300)),
        .step_takes = options.step_takes * (0.2 + 0.8 * world->random.Uniform())};
    node.id.rank += rank;
    if (options.misconfigured && rank == failing) node.fails_after = fails_after;
    ranks_.push_back(std::make_shared<RankNode>(world, coordinator, site, host, std::move(node)));
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
  on_event_(Exit{rank, 128 + 9});
}

void RankGroup::LosePower() {
  for (const auto& rank : ranks_) rank->Kill(/*silently=*/true);
}

std::string RankGroup::Describe() const {
  std::string text;
  for (const auto& rank : ranks_) {
    absl::StrAppendFormat(&text, " [%s step %d%s]", NameOf(rank->session().state()),
                          rank->session().step(), rank->session().connected() ? "" : " offline");
  }
  return text;
}

void RankGroup::Reported(int rank, const RankStatus& status) {
  on_event_(Status{Local(rank), status});
}

void RankGroup::Merged(int rank) {
  if (rank == 0) on_event_(AllMerged{});
}

void RankGroup::Evaluated(int rank, const session::Evaluate& evaluation) {
  if (rank == 0) on_event_(Evaluation{evaluation});
}

void RankGroup::Drains(int rank, int64_t last_step) {
  if (rank == 0) on_event_(Draining{last_step});
}

void RankGroup::Ended(int rank, const RankEnd& end) {
  if (end.code == kRankFailed) on_event_(Failure{*end.fault});
  process_->After(world_->Between(absl::ZeroDuration(), kNoticedByAgent),
                  [this, rank = Local(rank), code = end.code] {
                    on_event_(Exit{rank, code});
                  });
}

}  // namespace longhaul::simulation
