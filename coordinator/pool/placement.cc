#include "coordinator/pool/placement.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace longhaul {
namespace {

constexpr size_t kNamesShown = 3;
constexpr int kNobody = -1;

// Whether a pool could do a job, or the first reason why not.
enum class Fit : uint8_t { kYes, kNotNamed, kWithoutDevice, kLacking, kSetAside };

// A job keeps idle pools in turns (placement.h, 3): whether it keeps them in this turn, and how
// long the turn still lasts.
struct Turn {
  bool keeps = false;
  absl::Duration left = absl::InfiniteDuration();
};

Turn TurnOf(absl::Duration waited, absl::Duration keep_after) {
  if (keep_after <= absl::ZeroDuration()) return {.keeps = true};
  Turn turn;
  absl::Duration end = keep_after;
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
class Board {
 public:
  Board(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs,
        const PlacementOptions& options)
      : options_(options) {
    TakePools(pools);
    TakeJobs(jobs);
    for (JobState& job : jobs_) Compare(job);
    OrderIdle();
  }

  Placement Run() {
    for (JobState& job : jobs_) {
      if (job.demand->missing_min > 0) Begin(job);
    }
    Share();
    return Result();
  }

 private:
  struct PoolState {
    const PoolOffer* offer;
    // Numbers of jobs (NumberOf).
    int busy_with = kNobody, given_to = kNobody, kept_for = kNobody;
    // How many jobs could use the pool.
    int uses = 0;
    const Capabilities::Bits* capabilities = nullptr;
    bool idle() const { return busy_with == kNobody && given_to == kNobody; }
    bool free() const { return idle() && kept_for == kNobody; }
  };
  struct JobState {
    const JobDemand* demand;
    // Given by NumberOf.
    int number;
    // By pool.
    std::vector<Fit> fit;
    // Numbers of pools.
    std::vector<int> given;
    // An index into idle_. No pool before it is of use to the job any more.
    size_t next = 0;
    // The job has not begun, and does not begin now.
    bool lacks = false;
    int room() const {
      return std::max(demand->room, demand->missing_min) - static_cast<int>(given.size());
    }
    int live() const { return demand->live + static_cast<int>(given.size()); }
  };

  void TakePools(const std::vector<PoolOffer>& pools) {
    for (const PoolOffer& pool : pools) pools_.push_back({.offer = &pool});
    std::sort(pools_.begin(), pools_.end(),
              [](const PoolState& a, const PoolState& b) { return a.offer->pool < b.offer->pool; });
    for (size_t i = 0; i < pools_.size(); ++i) {
      PoolState& pool = pools_[i];
      by_name_.emplace(pool.offer->pool, i);
      if (!pool.offer->busy_with.empty()) pool.busy_with = NumberOf(pool.offer->busy_with);
    }
  }

  void TakeJobs(const std::vector<JobDemand>& jobs) {
    for (const JobDemand& job : jobs) {
      if (!job.open || (job.missing_min <= 0 && job.room <= 0)) continue;
      jobs_.push_back({.demand = &job, .number = NumberOf(job.name)});
      capabilities_.Add(job.needs);
    }
    for (PoolState& pool : pools_) {
      const std::set<std::string>* set = pool.offer->capabilities;
      const auto [entry, added] = offered_.try_emplace(set);
      if (added) entry->second = capabilities_.Of(set == nullptr ? std::set<std::string>() : *set);
      pool.capabilities = &entry->second;
    }
  }

  int NumberOf(std::string_view job) {
    const auto [entry, added] = numbers_.try_emplace(job, static_cast<int>(names_.size()));
    if (added) names_.push_back(job);
    return entry->second;
  }

  void Compare(JobState& job) {
    const JobDemand& demand = *job.demand;
    const Capabilities::Bits needed = capabilities_.Of({demand.needs.begin(), demand.needs.end()});
    job.fit.assign(pools_.size(), Fit::kNotNamed);
    if (demand.names.empty()) {
      for (size_t i = 0; i < pools_.size(); ++i) job.fit[i] = FitOf(demand, needed, pools_[i]);
    }
    for (const std::string& name : demand.names) {
      if (const auto named = by_name_.find(name); named != by_name_.end()) {
        job.fit[named->second] = FitOf(demand, needed, pools_[named->second]);
      }
    }
    for (const auto& [name, why] : demand.excluded) {
      const auto excluded = by_name_.find(name);
      if (excluded == by_name_.end() || job.fit[excluded->second] != Fit::kYes) continue;
      job.fit[excluded->second] = Fit::kSetAside;
    }
    for (size_t i = 0; i < pools_.size(); ++i) pools_[i].uses += job.fit[i] == Fit::kYes ? 1 : 0;
  }

  static Fit FitOf(const JobDemand& job, const Capabilities::Bits& needed, const PoolState& pool) {
    if (job.device == PoolDevice::kCuda && pool.offer->device != PoolDevice::kCuda) {
      return Fit::kWithoutDevice;
    }
    return Capabilities::Covers(*pool.capabilities, needed) ? Fit::kYes : Fit::kLacking;
  }

  void OrderIdle() {
    for (size_t i = 0; i < pools_.size(); ++i) {
      if (pools_[i].idle() && pools_[i].uses > 0) idle_.push_back(static_cast<int>(i));
    }
    const auto key = [this](int i) {
      return std::tuple(pools_[i].uses, pools_[i].offer->device, pools_[i].offer->turn, i);
    };
    std::sort(idle_.begin(), idle_.end(), [&](int a, int b) { return key(a) < key(b); });
  }

  // Gives a job that has not begun all the pools that it is missing, or none. If none, the job may
  // keep idle pools.
  void Begin(JobState& job) {
    const auto missing = static_cast<size_t>(job.demand->missing_min);
    std::vector<int> set;
    for (size_t at = 0; at < idle_.size() && set.size() < missing; ++at) {
      const int i = idle_[at];
      if (pools_[i].free() && job.fit[i] == Fit::kYes) set.push_back(i);
    }
    if (set.size() == missing) {
      for (const int i : set) Give(job, i);
      return;
    }
    job.lacks = true;
    if (Connected(job) < missing) return;
    const Turn turn = TurnOf(job.demand->waited, options_.keep_after);
    reconsider_in_ = std::min(reconsider_in_, turn.left);
    if (!turn.keeps) return;
    for (const int i : set) pools_[i].kept_for = job.number;
  }

  // How many pools could do the job if all other jobs gave theirs back.
  size_t Connected(const JobState& job) const {
    size_t connected = 0;
    for (size_t i = 0; i < pools_.size(); ++i) {
      if (job.fit[i] == Fit::kYes && pools_[i].busy_with != job.number) ++connected;
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

  bool TakeOne(JobState& job) {
    for (; job.next < idle_.size(); ++job.next) {
      const int i = idle_[job.next];
      if (!pools_[i].free() || job.fit[i] != Fit::kYes) continue;
      Give(job, i);
      return true;
    }
    return false;
  }

  void Give(JobState& job, int i) {
    pools_[i].given_to = job.number;
    job.given.push_back(i);
  }

  Placement Result() {
    Placement result{.reconsider_in = reconsider_in_};
    for (JobState& job : jobs_) {
      // Sorted by name, so that the same pools get the same ordinals whichever joined first.
      std::sort(job.given.begin(), job.given.end());
      for (const int i : job.given) {
        result.assignments.push_back({job.demand->job, pools_[i].offer->pool});
      }
      if (job.lacks) result.lacks.push_back(LackOf(job));
    }
    std::unordered_map<int, const JobState*> keepers;
    for (const JobState& job : jobs_) keepers.emplace(job.number, &job);
    for (const PoolState& pool : pools_) {
      if (pool.kept_for == kNobody) continue;
      result.kept.push_back({keepers.at(pool.kept_for)->demand->job, pool.offer->pool});
    }
    return result;
  }

  // Numbers of pools, indexed by the number of the job that has them.
  struct Counts {
    std::vector<int> kept, busy, without_device;
  };

  Lack LackOf(const JobState& job) const {
    const JobDemand& demand = *job.demand;
    Lack lack{.job = demand.job,
              .missing = demand.missing_min,
              .device = demand.device,
              .names = Some({demand.names.begin(), demand.names.end()})};
    std::vector<std::string_view> absent;
    for (const std::string& name : demand.names) {
      if (!by_name_.contains(name)) absent.push_back(name);
    }
    lack.absent = Some(std::move(absent));
    for (const std::string& need : demand.needs) lack.lacking.emplace_back(need, 0);
    const std::vector<int> none(names_.size());
    Counts counts{none, none, none};
    for (size_t i = 0; i < pools_.size(); ++i) Count(job, i, lack, counts);
    lack.kept = ByJob(counts.kept);
    lack.busy = ByJob(counts.busy);
    lack.without_device_busy = ByJob(counts.without_device);
    std::erase_if(lack.lacking, [](const auto& need) { return need.second == 0; });
    lack.reason = ReasonOf(lack);
    return lack;
  }

  void Count(const JobState& job, size_t i, Lack& lack, Counts& counts) const {
    const PoolState& pool = pools_[i];
    const int owner = pool.busy_with != kNobody ? pool.busy_with : pool.given_to;
    switch (job.fit[i]) {
      case Fit::kYes:
        if (owner == job.number) return;
        if (owner != kNobody) {
          ++counts.busy[owner];
        } else if (pool.kept_for == kNobody) {
          ++lack.idle;
        } else if (pool.kept_for == job.number) {
          ++lack.held;
        } else {
          ++counts.kept[pool.kept_for];
        }
        return;
      case Fit::kNotNamed:
        return;
      case Fit::kWithoutDevice:
        ++(owner == kNobody ? lack.without_device : counts.without_device[owner]);
        return;
      case Fit::kLacking:
        for (auto& [need, pools] : lack.lacking) {
          const std::set<std::string>* offered = pool.offer->capabilities;
          if (offered == nullptr || !offered->contains(need)) ++pools;
        }
        return;
      case Fit::kSetAside:
        ++lack.set_aside;
        if (lack.set_aside_first.size() >= kNamesShown) return;
        lack.set_aside_first.emplace_back(pool.offer->pool,
                                          job.demand->excluded.at(pool.offer->pool));
        return;
    }
  }

  static LackReason ReasonOf(const Lack& lack) {
    int pools = lack.idle + lack.held + lack.kept.pools;
    if (pools >= lack.missing) return LackReason::kKept;
    pools += lack.busy.pools;
    if (pools >= lack.missing) return LackReason::kBusy;
    pools += lack.set_aside;
    return pools >= lack.missing ? LackReason::kSetAside : LackReason::kNotConnected;
  }

  static SomeNames Some(std::vector<std::string_view> names) {
    SomeNames some{.count = static_cast<int>(names.size())};
    names.resize(std::min(names.size(), kNamesShown));
    some.first.assign(names.begin(), names.end());
    return some;
  }

  // `pools` has a number of pools for each number of a job.
  PoolsByJob ByJob(const std::vector<int>& pools) const {
    PoolsByJob result;
    std::vector<int> jobs;
    for (size_t j = 0; j < pools.size(); ++j) {
      if (pools[j] > 0) jobs.push_back(static_cast<int>(j));
      result.pools += pools[j];
    }
    std::sort(jobs.begin(), jobs.end(), [&](int a, int b) {
      return std::tuple(-pools[a], names_[a]) < std::tuple(-pools[b], names_[b]);
    });
    std::vector<std::string_view> names;
    for (const int j : jobs) names.push_back(names_[j]);
    result.jobs = Some(std::move(names));
    return result;
  }

  const PlacementOptions options_;
  std::vector<PoolState> pools_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<JobState> jobs_;
  // The names of the jobs, by number.
  std::vector<std::string_view> names_;
  std::unordered_map<std::string_view, int> numbers_;
  Capabilities capabilities_;
  std::unordered_map<const std::set<std::string>*, Capabilities::Bits> offered_;
  // Numbers of idle pools, in the order in which a job takes them.
  std::vector<int> idle_;
  absl::Duration reconsider_in_ = absl::InfiniteDuration();
};

}  // namespace

Placement Place(const std::vector<PoolOffer>& pools, const std::vector<JobDemand>& jobs,
                const PlacementOptions& options) {
  return Board(pools, jobs, options).Run();
}

}  // namespace longhaul
