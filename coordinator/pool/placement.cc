#include "coordinator/pool/placement.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "coordinator/pool/placement_board.h"
#include "coordinator/pool/placement_lack.h"

namespace longhaul {
namespace {

// A job keeps idle pools in turns (placement.h, 3): whether it keeps them in this turn, and how
// long the turn still lasts.
struct Turn {
  bool keeps = false;
  absl::Duration left = absl::InfiniteDuration();
};

Turn TurnOf(absl::Duration waited) {
  Turn turn;
  absl::Duration end = kKeepAfter;
  for (; end <= waited && end < absl::InfiniteDuration(); end *= 2) turn.keeps = !turn.keeps;
  turn.left = end - waited;
  return turn;
}

// All capabilities that any job needs. Each is a bit, so that sets can be compared word by word.
class Capabilities {
 public:
  using Bits = std::vector<uint64_t>;

  void Add(const std::vector<std::string>& needs) { names_.insert(needs.begin(), needs.end()); }
  // May be called after all capabilities were added.
  Bits Of(const std::set<std::string>& set) const {
    Bits bits((names_.size() + 63) / 64);
    size_t i = 0;
    for (const std::string& name : names_) {
      if (set.contains(name)) bits[i / 64] |= uint64_t{1} << (i % 64);
      ++i;
    }
    return bits;
  }
  static bool Covers(const Bits& offered, const Bits& needed) {
    for (size_t i = 0; i < needed.size(); ++i) {
      if ((needed[i] & ~offered[i]) != 0) return false;
    }
    return true;
  }

 private:
  std::set<std::string> names_;
};

// One call of Place. Pools are numbered by name, and jobs in their order. Jobs that are not open
// are left out.
class Placer {
 public:
  Placer(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs) {
    TakePools(pools);
    TakeJobs(jobs);
    for (BoardJob& job : jobs_) Compare(job);
    OrderIdle();
  }

  Placement Run() {
    for (BoardJob& job : jobs_) {
      if (job.demand->missing_min > 0) Begin(job);
    }
    Share();
    return Result();
  }

 private:
  void TakePools(const std::vector<PoolOffer>& pools) {
    for (const PoolOffer& pool : pools) board_.pools.push_back({.offer = &pool});
    std::sort(board_.pools.begin(), board_.pools.end(),
              [](const BoardPool& a, const BoardPool& b) { return a.offer->pool < b.offer->pool; });
    for (size_t i = 0; i < board_.pools.size(); ++i) {
      BoardPool& pool = board_.pools[i];
      board_.by_name.emplace(pool.offer->pool, i);
      if (!pool.offer->busy_with.empty()) pool.busy_with = NumberOf(pool.offer->busy_with);
    }
  }

  void TakeJobs(const std::vector<JobDemand>& jobs) {
    for (const JobDemand& job : jobs) {
      if (!job.open || (job.missing_min <= 0 && job.room <= 0)) continue;
      jobs_.push_back({.demand = &job, .number = NumberOf(job.name)});
      capabilities_.Add(job.needs);
    }
    for (BoardPool& pool : board_.pools) {
      const std::set<std::string>* set = pool.offer->capabilities;
      const auto [entry, added] = offered_.try_emplace(set);
      if (added) entry->second = capabilities_.Of(set == nullptr ? std::set<std::string>() : *set);
      pool.capabilities = &entry->second;
    }
  }

  int NumberOf(std::string_view job) {
    const auto [entry, added] =
        numbers_.try_emplace(job, static_cast<int>(board_.job_names.size()));
    if (added) board_.job_names.push_back(job);
    return entry->second;
  }

  void Compare(BoardJob& job) {
    const JobDemand& demand = *job.demand;
    const Capabilities::Bits needed = capabilities_.Of({demand.needs.begin(), demand.needs.end()});
    job.fit.assign(board_.pools.size(), Fit::kNotNamed);
    if (demand.names.empty()) {
      for (size_t i = 0; i < board_.pools.size(); ++i)
        job.fit[i] = FitOf(demand, needed, board_.pools[i]);
    }
    for (const std::string& name : demand.names) {
      if (const auto named = board_.by_name.find(name); named != board_.by_name.end()) {
        job.fit[named->second] = FitOf(demand, needed, board_.pools[named->second]);
      }
    }
    for (const auto& [name, why] : demand.excluded) {
      const auto excluded = board_.by_name.find(name);
      if (excluded == board_.by_name.end() || job.fit[excluded->second] != Fit::kYes) continue;
      job.fit[excluded->second] = Fit::kSetAside;
    }
    for (size_t i = 0; i < board_.pools.size(); ++i)
      board_.pools[i].uses += job.fit[i] == Fit::kYes ? 1 : 0;
  }

  static Fit FitOf(const JobDemand& job, const Capabilities::Bits& needed, const BoardPool& pool) {
    if (job.device == PoolDevice::kCuda && pool.offer->device != PoolDevice::kCuda) {
      return Fit::kWithoutDevice;
    }
    return Capabilities::Covers(*pool.capabilities, needed) ? Fit::kYes : Fit::kLacking;
  }

  void OrderIdle() {
    for (size_t i = 0; i < board_.pools.size(); ++i) {
      if (board_.pools[i].idle() && board_.pools[i].uses > 0) idle_.push_back(static_cast<int>(i));
    }
    const auto key = [this](int i) {
      return std::tuple(board_.pools[i].uses, board_.pools[i].offer->device,
                        board_.pools[i].offer->turn, i);
    };
    std::sort(idle_.begin(), idle_.end(), [&](int a, int b) { return key(a) < key(b); });
  }

  // Gives a job that has not begun all the pools that it is missing, or none. If none, the job may
  // keep idle pools.
  void Begin(BoardJob& job) {
    const auto missing = static_cast<size_t>(job.demand->missing_min);
    std::vector<int> set;
    for (size_t at = 0; at < idle_.size() && set.size() < missing; ++at) {
      const int i = idle_[at];
      if (board_.pools[i].free() && job.fit[i] == Fit::kYes) set.push_back(i);
    }
    if (set.size() == missing) {
      for (const int i : set) Give(job, i);
      return;
    }
    job.lacks = true;
    if (Connected(job) < missing) return;
    const Turn turn = TurnOf(job.demand->waited);
    reconsider_in_ = std::min(reconsider_in_, turn.left);
    if (!turn.keeps) return;
    for (const int i : set) board_.pools[i].kept_for = job.number;
  }

  // How many pools could do the job if all other jobs gave theirs back.
  size_t Connected(const BoardJob& job) const {
    size_t connected = 0;
    for (size_t i = 0; i < board_.pools.size(); ++i) {
      if (job.fit[i] == Fit::kYes && board_.pools[i].busy_with != job.number) ++connected;
    }
    return connected;
  }

  // Gives each remaining pool to the job with the fewest pools; of equal ones to the older.
  void Share() {
    // The number of live pools, and the job's index.
    using Entry = std::pair<int, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> poorest;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      if (!jobs_[j].lacks && jobs_[j].room() > 0) poorest.push({jobs_[j].live(), j});
    }
    while (!poorest.empty()) {
      const size_t j = poorest.top().second;
      poorest.pop();
      if (TakeOne(jobs_[j]) && jobs_[j].room() > 0) poorest.push({jobs_[j].live(), j});
    }
  }

  bool TakeOne(BoardJob& job) {
    for (; job.next < idle_.size(); ++job.next) {
      const int i = idle_[job.next];
      if (!board_.pools[i].free() || job.fit[i] != Fit::kYes) continue;
      Give(job, i);
      return true;
    }
    return false;
  }

  void Give(BoardJob& job, int i) {
    board_.pools[i].given_to = job.number;
    job.given.push_back(i);
  }

  Placement Result() {
    Placement result{.reconsider_in = reconsider_in_};
    for (BoardJob& job : jobs_) {
      // Sorted by name, so that the same pools get the same ordinals whichever joined first.
      std::sort(job.given.begin(), job.given.end());
      for (const int i : job.given) {
        result.assignments.push_back({job.demand->job, board_.pools[i].offer->pool});
      }
      if (job.lacks) result.lacks.push_back(LackOf(board_, job));
    }
    std::unordered_map<int, const BoardJob*> keepers;
    for (const BoardJob& job : jobs_) keepers.emplace(job.number, &job);
    for (const BoardPool& pool : board_.pools) {
      if (pool.kept_for == kNobody) continue;
      result.kept.push_back({keepers.at(pool.kept_for)->demand->job, pool.offer->pool});
    }
    return result;
  }

  PlacementBoard board_;
  std::vector<BoardJob> jobs_;
  std::unordered_map<std::string_view, int> numbers_;
  Capabilities capabilities_;
  std::unordered_map<const std::set<std::string>*, Capabilities::Bits> offered_;
  // Numbers of idle pools, in the order in which a job takes them.
  std::vector<int> idle_;
  absl::Duration reconsider_in_ = absl::InfiniteDuration();
};

}  // namespace

Placement Place(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs) {
  return Placer(pools, jobs).Run();
}

}  // namespace longhaul
