// Values for reports and plans.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/counted.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

// "a, b and 7 more".
std::string NamesOf(const std::vector<int>& ordinals, const Participants& participants) {
  constexpr size_t kShown = 3;
  std::string names;
  for (size_t i = 0; i < std::min(ordinals.size(), kShown); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", participants.at(ordinals[i]).pool);
  }
  if (ordinals.size() > kShown) absl::StrAppend(&names, " and ", ordinals.size() - kShown, " more");
  return names;
}

// Of the rounds that have contributions, the one with the earliest push. The pools wait for it.
const Round* OldestOpened(const Exchange& exchange, int* fragment) {
  const Round* oldest = nullptr;
  for (int p = 0; p < exchange.plan().fragments(); ++p) {
    const auto& round = exchange.fragment(p).round;
    if (!round.has_value() || !round->opened() || round->applying()) continue;
    if (oldest != nullptr && oldest->push_step() <= round->push_step()) continue;
    oldest = &*round;
    *fragment = p;
  }
  return oldest;
}

// Of a job that runs.
std::optional<Waiting> WaitingForPools(const Exchange& rounds, absl::Time changed_at) {
  const Participants& participants = rounds.participants();
  const absl::Time forever = absl::InfiniteFuture();
  if (participants.ready_count() == 0) return Waiting{"a pool: none is ready", changed_at, forever};
  const int quorum = rounds.policy().quorum;
  if (participants.ready_count() < quorum) {
    return Waiting{absl::StrFormat("pools: %d of the %d that the quorum needs are ready",
                                   participants.ready_count(), quorum),
                   changed_at, forever};
  }
  int fragment = 0;
  const Round* round = OldestOpened(rounds, &fragment);
  if (round == nullptr) return std::nullopt;
  const std::string names = NamesOf(round->Owing(participants, Presence::kLive), participants);
  const bool lacks = !rounds.policy().lockstep() && !round->called();
  const int more = quorum - static_cast<int>(round->contributors().size());
  // Those who are here drain before the push.
  if (lacks && names.empty()) {
    return Waiting{absl::StrFormat("pools: %d more for fragment %d version %d", more, fragment,
                                   round->id().version),
                   round->opened_at(), forever};
  }
  return Waiting{absl::StrFormat("fragment %d version %d from %s%s", fragment, round->id().version,
                                 lacks ? absl::StrFormat("%d more of ", more) : "", names),
                 round->opened_at(), round->due_at()};
}

}  // namespace

std::optional<Waiting> Coordinator::WaitingFor(const Job& job) const {
  if (!job.exchange.has_value() || job.state() == JobState::kQuarantined) return std::nullopt;
  const Exchange& rounds = *job.exchange;
  const Participants& participants = rounds.participants();
  const absl::Time forever = absl::InfiniteFuture();
  if (!job.blocked.empty())
    return Waiting{absl::StrCat("the coordinator: ", job.blocked), job.blocked_since, forever};
  // A running job that has some of its quorum says below what it waits for.
  const bool has_some = job.state() == JobState::kRunning && participants.live_count() > 0;
  if (!job.lacks.empty() && !has_some) return Waiting{job.lacks, *job.lacks_since, forever};
  if (job.store == StoreState::kOpening ||
      (job.store == StoreState::kClosing && !IsPaused(job.pause)))
    return Waiting{"the coordinator to open the job's store", job.changed_at, forever};
  if (IsPaused(job.pause)) return WaitingToPause(job);
  if (job.state() == JobState::kPending || (job.gathers && participants.live_count() > 0)) {
    const int ready = participants.ready_count(), loading = participants.live_count() - ready;
    return Waiting{absl::StrFormat("%s to load data and the model (%d of %d %s ready)",
                                   Counted(loading, "pool"), ready, job.options.pools_min,
                                   job.options.pools_min == 1 ? "is" : "are"),
                   job.changed_at, forever};
  }
  switch (job.state()) {
    case JobState::kSeeding: {
      if (job.options.from_checkpoint)
        return Waiting{"the initial parameters from a checkpoint", job.changed_at, forever};
      const std::optional<int> seeder = rounds.seeder();
      return Waiting{seeder.has_value() ? absl::StrCat("the initial parameters from pool ",
                                                       participants.at(*seeder).pool)
                                        : "a pool that sends the initial parameters",
                     job.changed_at, forever};
    }
    case JobState::kRunning:
      return WaitingForPools(rounds, job.changed_at);
    case JobState::kFinishing:
      if (job.final_checkpoint == FinalCheckpoint::kWriting)
        return Waiting{"the final checkpoint", job.changed_at, forever};
      if (job.final_checkpoint == FinalCheckpoint::kWritten)
        return Waiting{"the requested checkpoint", job.changed_at, forever};
      return Waiting{job.final_evaluation ? "the pools to merge and evaluate the last commits"
                                          : "the final evaluation",
                     job.changed_at, AwaitsPoolsUntil(job)};
    default:
      return std::nullopt;
  }
}

namespace {

ParticipantView ParticipantViewOf(const Participant& p) {
  return {p.pool,       p.incarnation, p.ordinal,     p.start_step,   p.live(),
          p.inner_step, p.last_step,   p.late_rounds, p.late_in_a_row};
}

SetAsideView SetAsideViewOf(const std::string& pool, const longhaul::SetAside& entry,
                            const Job& job) {
  return {job.options.name, pool, entry.fault, entry.failures, entry.retry_at};
}

}  // namespace

std::optional<JobView> Coordinator::job(std::string_view id) const {
  const Job* job = Find(id);
  if (job == nullptr) return std::nullopt;
  JobView view{.state = ShownState(job->state(), job->pause),
               .fault = job->fault,
               .waiting = WaitingFor(*job)};
  if (job->divergence.bad())
    view.divergence =
        DivergenceView{job->divergence.words(), job->divergence.since(), job->divergence.lasts()};
  for (const auto& [pool, entry] : job->set_asides.all())
    view.set_aside.push_back(SetAsideViewOf(pool, entry, *job));
  if (!job->exchange.has_value()) return view;
  const Exchange& rounds = *job->exchange;
  for (const Participant& p : rounds.participants().all())
    view.participants.push_back(ParticipantViewOf(p));
  for (int f = 0; f < rounds.plan().fragments(); ++f) {
    FragmentView fragment{.version = rounds.fragment(f).version,
                          .last_version = rounds.plan().LastVersion(f)};
    if (const auto& round = rounds.fragment(f).round) {
      fragment.called = round->called();
      fragment.applying = round->applying();
      for (const auto& [ordinal, incarnation] : round->contributors()) {
        if (rounds.participants().at(ordinal).incarnation == incarnation)
          fragment.contributors.push_back(ordinal);
      }
    }
    view.fragments.push_back(std::move(fragment));
  }
  return view;
}

std::optional<ParticipantView> Coordinator::place(std::string_view id,
                                                  std::string_view pool) const {
  const Job* job = Find(id);
  if (job == nullptr || !job->exchange.has_value()) return std::nullopt;
  const Participant* p = job->exchange->participants().Find(pool);
  return p == nullptr ? std::nullopt : std::optional(ParticipantViewOf(*p));
}

PoolState Coordinator::PoolStateOf(const Member& member) const {
  if (member.live && member.draining) return PoolState::kDraining;
  const Participant* p = PlaceOf(member.pool);
  if (p != nullptr && p->live() && p->stopping) return PoolState::kDraining;
  if (p != nullptr && p->live())
    return p->ready() ? PoolState::kParticipating : PoolState::kAssigned;
  if (member.live) return PoolState::kIdle;
  const bool away = p != nullptr && p->presence == Presence::kAway;
  return away ? PoolState::kAway : PoolState::kLost;
}

PoolView Coordinator::ViewOf(const Member& member) const {
  PoolView view{.pool = member.pool,
                .incarnation = member.incarnation,
                .ranks = member.traits.ranks,
                .lease_end = member.lease_end,
                .state = PoolStateOf(member),
                .nodes = nodes_.NodesOf(member.pool)};
  if (const auto place = places_.find(member.pool); place != places_.end())
    view.assignment = Assignment{place->second.job, place->second.ordinal};
  return view;
}

// Pools that left after draining are not members any more.
bool Coordinator::IsAway(const std::string& pool) const {
  return PlaceOf(pool)->presence == Presence::kAway && membership_.Find(pool) == nullptr;
}

std::vector<PoolView> Coordinator::pools(std::string_view after, size_t count) const {
  std::map<std::string, PoolView, std::less<>> views;
  const auto& members = membership_.members();
  for (auto it = members.upper_bound(after); it != members.end() && views.size() < count; ++it)
    views[it->first] = ViewOf(it->second);
  for (const auto& [pool, place] : places_) {
    if (pool <= after || !IsAway(pool)) continue;
    views[pool] = {.pool = pool,
                   .incarnation = PlaceOf(pool)->incarnation,
                   .lease_end = now_,
                   .state = PoolState::kAway,
                   .assignment = Assignment{place.job, place.ordinal}};
  }
  // Pools whose group of nodes is not complete are not members yet, or are lost ones.
  for (NodeGroups::Forming& forming : nodes_.forming()) {
    if (forming.pool <= after) continue;
    PoolView& view = views[forming.pool];
    view.pool = forming.pool;
    view.state = PoolState::kForming;
    view.lease_end = now_ + options_.lease;
    view.nodes = nodes_.NodesOf(forming.pool);
    view.missing = Waiting{std::move(forming.missing), forming.since, absl::InfiniteFuture()};
  }
  while (views.size() > count) views.erase(std::prev(views.end()));
  for (const auto& [order, job] : in_order_) {
    for (const auto& [pool, entry] : job->set_asides.all()) {
      const auto view = views.find(pool);
      if (view != views.end()) view->second.set_aside.push_back(SetAsideViewOf(pool, entry, *job));
    }
  }
  std::vector<PoolView> sorted;
  for (auto& [pool, view] : views) sorted.push_back(std::move(view));
  return sorted;
}

PoolCounts Coordinator::CountPools() const {
  PoolCounts counts;
  std::set<std::string, std::less<>> forming;
  for (NodeGroups::Forming& pool : nodes_.forming()) forming.insert(std::move(pool.pool));
  counts.by_state[PoolState::kForming] = counts.live = static_cast<int>(forming.size());
  for (const auto& [pool, member] : membership_.members()) {
    if (forming.contains(pool)) continue;
    ++counts.by_state[PoolStateOf(member)];
    counts.live += member.lease_end > now_;
  }
  for (const auto& [pool, place] : places_) {
    if (IsAway(pool) && !forming.contains(pool)) ++counts.by_state[PoolState::kAway];
  }
  return counts;
}

}  // namespace longhaul::coordinator
