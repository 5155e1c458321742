// What the shell shows.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// The round that holds the pools up: of those that somebody contributed to, the one with the
// earliest push.
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

}  // namespace

std::optional<Waiting> Coordinator::WaitingFor(const Job& job) const {
  const Exchange& rounds = exchange(job);
  const Participants& participants = rounds.participants();
  const absl::Time forever = absl::InfiniteFuture();
  switch (job.lifecycle.state()) {
    case JobState::kPending:
      return Waiting{
          absl::StrFormat("%d pools (%d ready)", job.options.pools_min, participants.ready_count()),
          job.changed_at, forever};
    case JobState::kSeeding: {
      const std::optional<int> seeder = rounds.seeder();
      return Waiting{seeder.has_value() ? absl::StrCat("the initial parameters from pool ",
                                                       participants.at(*seeder).pool)
                                        : "a pool that gives the initial parameters",
                     job.changed_at, forever};
    }
    case JobState::kRunning: {
      if (participants.ready_count() == 0)
        return Waiting{"a pool: none is left", job.changed_at, forever};
      int fragment = 0;
      const Round* round = OldestOpened(rounds, &fragment);
      if (round == nullptr) return std::nullopt;
      return Waiting{
          absl::StrFormat("fragment %d version %d from %s", fragment, round->version(),
                          NamesOf(round->Owing(participants, Presence::kLive), participants)),
          round->opened_at(), forever};
    }
    case JobState::kFinishing:
      return Waiting{"the final evaluation", job.changed_at, job.final_evaluation_until};
    default:
      return std::nullopt;
  }
}

std::optional<JobView> Coordinator::job(std::string_view id) const {
  const Job* job = jobs_.Find(id);
  if (job == nullptr) return std::nullopt;
  const Exchange& rounds = exchange(*job);
  JobView view{.state = job->lifecycle.state(), .fault = job->fault, .waiting = WaitingFor(*job)};
  for (const Participant& p : rounds.participants().all()) {
    view.participants.push_back(
        {p.pool, p.incarnation, p.ordinal, p.start_step, p.live(), p.inner_step});
  }
  for (int f = 0; f < rounds.plan().fragments(); ++f) {
    FragmentView fragment{.version = rounds.fragment(f).version,
                          .last_version = rounds.plan().LastVersion(f)};
    if (const auto& round = rounds.fragment(f).round) {
      fragment.contributors.assign(round->contributors().begin(), round->contributors().end());
    }
    view.fragments.push_back(std::move(fragment));
  }
  return view;
}

std::vector<std::string> Coordinator::jobs() const {
  std::vector<std::string> ids;
  for (const Job& job : jobs_.jobs()) ids.push_back(job.id);
  return ids;
}

std::vector<PoolView> Coordinator::pools() const {
  std::vector<PoolView> views;
  for (const auto& [pool, member] : membership_.members()) {
    PoolView view{.pool = pool,
                  .incarnation = member.incarnation,
                  .ranks = member.ranks,
                  .lease_end = member.lease_end};
    if (const auto place = places_.find(pool); place != places_.end()) {
      view.assignment = Assignment{place->second.job, place->second.ordinal};
      view.ready =
          exchanges_.at(place->second.job).participants().at(place->second.ordinal).ready();
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace longhaul::coordinator
