#include "worker/agent/pool_supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace longhaul {
namespace {

// A rank's last report is outdated if so many later ones are missing.
constexpr int kStale = 3;
// After one rank is lost, the others may take so long to report why they ended.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);
// Ranks whose job ended may take so long to end by themselves.
constexpr absl::Duration kLeave = absl::Seconds(10);
// If a tick is later than this, the whole process was stopped.
constexpr absl::Duration kOwnPause = absl::Seconds(2);

absl::Duration Growing(absl::Duration first, int times, absl::Duration most) {
  return std::min(first * (int64_t{1} << std::min(times, 20)), most);
}

std::string HowItEnded(int rank, int code) {
  return code > 128 ? absl::StrCat("rank ", rank, " was ended by signal ", code - 128)
                    : absl::StrCat("rank ", rank, " ended with status ", code);
}

}  // namespace

absl::Duration ProgressLimits::Of(double expected_seconds) const {
  return std::max(at_least,
                  expected_seconds > 0 ? absl::Seconds(factor * expected_seconds) : first);
}

PoolSupervisor::PoolSupervisor(Options options, absl::Time now)
    : options_(std::move(options)), ticked_(now), had_job_(now) {}

PoolSupervisor::Actions PoolSupervisor::Assigned(const Work& work, absl::Time now) {
  Actions out;
  if (state_ == State::kDraining || state_ == State::kDone) return out;
  Work as_before = work;
  as_before.stop = work_.stop;
  if (as_before == work_) {
    work_.stop = work.stop;
    if (work.stop && state_ == State::kRunning) Stop(now, out);
    const bool again = state_ == State::kEnded && !completed_ && now >= restart_at_;
    if (!again || work.job.empty() || work.stop) return out;
    // The job continues, so it needs more of this pool than its ranks believed.
    ++restarts_;
    Start(now, out);
    return out;
  }
  const bool same = work.incarnation == work_.incarnation;
  const bool runs = state_ == State::kRunning || state_ == State::kStopping;
  if (runs && work.job.empty() && same && !AllEnded()) {
    // The coordinator tells them, too, and they have something to put in order.
    spent_.insert(work_.job);
    work_ = work;
    state_ = State::kLeaving;
    leave_until_ = now + kLeave;
    return out;
  }
  if (runs || state_ == State::kLeaving) Kill(out, std::exchange(lost_, ""));
  if (!work.job.empty() && work.job != last_job_) {
    restarts_ = 0;
    last_job_ = work.job;
  }
  if (!same) spent_.clear();
  work_ = work;
  state_ = State::kIdle;
  if (work_.stop) {
    state_ = State::kEnded;
    completed_ = false;
  } else if (!work_.job.empty()) {
    Start(now, out);
  }
  return out;
}

void PoolSupervisor::Start(absl::Time now, Actions& out) {
  if (spent_.contains(work_.job)) {
    state_ = State::kLost;
    out.push_back(Rejoin{"its ranks restart", absl::ZeroDuration()});
    return;
  }
  state_ = State::kRunning;
  failed_ = false;
  completed_ = true;
  stopped_ = false;
  did_nothing_ = true;
  lost_.clear();
  conclude_at_ = absl::InfiniteFuture();
  ranks_.assign(options_.ranks, Rank{.started = now, .seen = now, .progressed = now});
  if (options_.nodes > 1) spent_.insert(work_.job);
  out.emplace_back(std::in_place_type<StartRanks>);
}

// The ranks do what they do when the pool drains, but the agent stays.
void PoolSupervisor::Stop(absl::Time now, Actions& out) {
  state_ = State::kStopping;
  drain_until_ = now + options_.drain;
  out.emplace_back(std::in_place_type<DrainRanks>);
}

void PoolSupervisor::Kill(Actions& out, std::string untold) {
  // The reports of the ended ranks do not count any more.
  if (!AllEnded() && !work_.job.empty()) spent_.insert(work_.job);
  ranks_.clear();
  out.push_back(KillRanks{std::move(untold)});
}

PoolSupervisor::Actions PoolSupervisor::Reported(int rank, const RankStatus& status,
                                                 absl::Time now) {
  if (rank < 0 || rank >= static_cast<int>(ranks_.size())) return {};
  Rank& known = ranks_[rank];
  known.seen = now;
  if (!known.reported || status.step != known.status.step ||
      status.in_collective != known.status.in_collective) {
    known.progressed = now;
  }
  if (status.step > known.status.step && known.reported) losses_ = 0;
  known.reported = true;
  known.status = status;
  return {};
}

PoolSupervisor::Actions PoolSupervisor::Failed() {
  failed_ = true;
  return {};
}

PoolSupervisor::Actions PoolSupervisor::Exited(int rank, int code, absl::Time now) {
  Actions out;
  if (rank < 0 || rank >= static_cast<int>(ranks_.size())) return out;
  ranks_[rank].ended = true;
  if (state_ == State::kDraining) {
    if (!AllEnded()) return out;
    state_ = State::kDone;
    out.push_back(Done{true});
    return out;
  }
  if (state_ == State::kLeaving) {
    if (!AllEnded()) return out;
    ranks_.clear();
    state_ = State::kIdle;
    return out;
  }
  if (code != kRankCompleted) completed_ = false;
  if (state_ == State::kStopping) {
    if (code != kRankFinished) spent_.insert(work_.job);
    if (!AllEnded()) return out;
    ranks_.clear();
    state_ = State::kEnded;
    restart_at_ = now;
    return out;
  }
  if (code == kRankFailed) failed_ = true;
  if (code == kRankStopped && options_.nodes > 1) stopped_ = true;
  did_nothing_ &= code == kRankFinished;
  const bool finished = code == kRankFinished || code == kRankCompleted || code == kRankStopped;
  // A rank that failed may have done steps before.
  if (code != kRankFinished) spent_.insert(work_.job);
  if (!finished && lost_.empty()) {
    lost_ = HowItEnded(work_.first_rank + rank, code);
    conclude_at_ = now + kLastWords;
  }
  // The other ranks need this one. They end as well, or wait for ever.
  conclude_at_ = std::min(conclude_at_, now + options_.progress.at_least);
  if (AllEnded() || failed_) Conclude(now, out);
  return out;
}

void PoolSupervisor::Conclude(absl::Time now, Actions& out) {
  const auto left = absl::c_find_if(ranks_, [](const Rank& rank) { return !rank.ended; });
  if (left != ranks_.end() && lost_.empty())
    lost_ = absl::StrCat("rank ", work_.first_rank + (left - ranks_.begin()),
                         " did not end with the others");
  if (!lost_.empty() && !failed_) return Lose(lost_, out);
  if (left != ranks_.end()) {
    completed_ = false;
    Kill(out);
  }
  ranks_.clear();
  state_ = State::kEnded;
  restart_at_ = now + Growing(absl::Seconds(2), restarts_, absl::Minutes(10));
  // A group does not begin the job again, so the next group is formed at once. The job may have
  // waited for another pool of several nodes. Each group that ends takes the job from that pool,
  // too; so if groups came back ever later, the two would never be there at the same time.
  if (options_.nodes > 1 && did_nothing_ && !failed_) restart_at_ = now;
  // The node that drains still sends what it owes. It must leave first, so that the pool keeps its
  // place.
  if (stopped_) restart_at_ = std::max(restart_at_, now + options_.drain);
}

// A pool that lost a rank has lost its place. It comes back as a new incarnation, after a delay
// that grows if this happens again.
void PoolSupervisor::Lose(const std::string& reason, Actions& out) {
  Kill(out);
  state_ = State::kLost;
  out.push_back(Rejoin{reason, Growing(absl::Milliseconds(200), losses_++, absl::Seconds(30))});
}

PoolSupervisor::Actions PoolSupervisor::StartFailed(const std::string& reason) {
  Actions out;
  if (state_ == State::kRunning) Lose(reason, out);
  return out;
}

PoolSupervisor::Actions PoolSupervisor::Tick(absl::Time now) {
  Actions out;
  const absl::Time before = std::exchange(ticked_, now);
  if (state_ == State::kDraining && now >= drain_until_) {
    Kill(out);
    state_ = State::kDone;
    out.push_back(Done{true});
  }
  if (state_ == State::kStopping && now >= drain_until_) {
    Kill(out);
    state_ = State::kEnded;
    completed_ = false;
    restart_at_ = now;
  }
  if (state_ == State::kLeaving && now >= leave_until_) {
    Kill(out);
    state_ = State::kIdle;
  }
  if (state_ != State::kIdle) {
    had_job_ = now;
  } else if (now - had_job_ >= options_.exit_when_idle) {
    state_ = State::kDone;
    out.push_back(Done{.idle = true});
  }
  if (state_ != State::kRunning) return out;
  if (now - before > kOwnPause) {
    for (Rank& rank : ranks_) rank.seen = rank.progressed = now;
    // Some ranks may have ended meanwhile.
    conclude_at_ = std::max(conclude_at_, now + kLastWords);
  }
  ExcuseWaitingRanks(now);
  if (now >= conclude_at_) {
    Conclude(now, out);
  } else if (const std::optional<std::string> stall = FindStall(now)) {
    Lose(*stall, out);
  }
  return out;
}

// A rank may wait for another rank. That one waits for the coordinator, or it is the one that makes
// no progress (or reports nothing), and is blamed itself. So a rank that waits is excused, and its
// own time begins later. If all ranks here wait, they wait for one of another node, whose agent
// watches it.
void PoolSupervisor::ExcuseWaitingRanks(absl::Time now) {
  bool any_waits_for_coordinator = false, all_in_collective = true;
  for (const Rank& rank : ranks_) {
    any_waits_for_coordinator |= !rank.ended && !rank.status.waits_for.empty();
    all_in_collective &=
        rank.ended || (rank.status.in_collective && now - rank.seen <= kStale * kRankStatusEach);
  }
  for (Rank& rank : ranks_) {
    const bool for_another =
        rank.status.in_collective &&
        (any_waits_for_coordinator || !all_in_collective || options_.nodes > 1);
    if (for_another || !rank.status.waits_for.empty()) rank.progressed = now;
  }
}

std::optional<std::string> PoolSupervisor::FindStall(absl::Time now) const {
  const auto words = [&](int index, const char* what, absl::Duration time, absl::Duration limit) {
    return absl::StrFormat("rank %d %s for %s at inner step %d (limit %s)",
                           work_.first_rank + index, what,
                           absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(100))),
                           ranks_[index].status.step, absl::FormatDuration(limit));
  };
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    if (rank.ended) continue;
    const int index = static_cast<int>(i);
    // A rank reports once a second, whatever it does.
    const absl::Duration silent_max =
        rank.reported ? options_.progress.at_least : options_.progress.Of(0);
    if (now - rank.seen > silent_max)
      return words(index, "was silent", now - rank.seen, silent_max);
    const absl::Duration still = now - rank.progressed,
                         limit = options_.progress.Of(rank.status.expected_seconds);
    if (still > limit) return words(index, "made no progress", still, limit);
  }
  return std::nullopt;
}

PoolSupervisor::Actions PoolSupervisor::Drain(absl::Time now) {
  Actions out;
  if (state_ == State::kDraining || state_ == State::kDone) return out;
  if (state_ == State::kStopping) {
    // The ranks were asked already.
    state_ = State::kDraining;
    return out;
  }
  if (state_ != State::kRunning || AllEnded()) {
    state_ = State::kDone;
    out.push_back(Done{!work_.job.empty()});
    return out;
  }
  state_ = State::kDraining;
  drain_until_ = now + options_.drain;
  out.emplace_back(std::in_place_type<DrainRanks>);
  return out;
}

bool PoolSupervisor::AllEnded() const {
  return absl::c_all_of(ranks_, [](const Rank& rank) { return rank.ended; });
}

}  // namespace longhaul
