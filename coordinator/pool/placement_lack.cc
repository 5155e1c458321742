#include "coordinator/pool/placement_lack.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace longhaul {
namespace {

constexpr size_t kNamesShown = 3;

// Numbers of pools, indexed by the number of the job that has them.
struct Counts {
  std::vector<int> kept, busy, without_device;
};

void Count(const BoardJob& job, const BoardPool& pool, Fit fit, Lack& lack, Counts& counts) {
  const int owner = pool.busy_with != kNobody ? pool.busy_with : pool.given_to;
  switch (fit) {
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

LackReason ReasonOf(const Lack& lack) {
  int pools = lack.idle + lack.held + lack.kept.pools;
  if (pools >= lack.missing) return LackReason::kKept;
  pools += lack.busy.pools;
  if (pools >= lack.missing) return LackReason::kBusy;
  pools += lack.set_aside;
  return pools >= lack.missing ? LackReason::kSetAside : LackReason::kNotConnected;
}

SomeNames Some(std::vector<std::string_view> names) {
  SomeNames some{.count = static_cast<int>(names.size())};
  names.resize(std::min(names.size(), kNamesShown));
  some.first.assign(names.begin(), names.end());
  return some;
}

// `pools` has a number of pools for each number of a job.
PoolsByJob ByJob(const PlacementBoard& board, const std::vector<int>& pools) {
  PoolsByJob result;
  std::vector<int> jobs;
  for (size_t j = 0; j < pools.size(); ++j) {
    if (pools[j] > 0) jobs.push_back(static_cast<int>(j));
    result.pools += pools[j];
  }
  std::sort(jobs.begin(), jobs.end(), [&](int a, int b) {
    return std::tuple(-pools[a], board.job_names[a]) < std::tuple(-pools[b], board.job_names[b]);
  });
  std::vector<std::string_view> names;
  for (const int j : jobs) names.push_back(board.job_names[j]);
  result.jobs = Some(std::move(names));
  return result;
}

}  // namespace

Lack LackOf(const PlacementBoard& board, const BoardJob& job) {
  const JobDemand& demand = *job.demand;
  Lack lack{.job = demand.job,
            .missing = demand.missing_min,
            .device = demand.device,
            .names = Some({demand.names.begin(), demand.names.end()})};
  std::vector<std::string_view> absent;
  for (const std::string& name : demand.names) {
    if (!board.by_name.contains(name)) absent.push_back(name);
  }
  lack.absent = Some(std::move(absent));
  for (const std::string& need : demand.needs) lack.lacking.emplace_back(need, 0);
  const std::vector<int> none(board.job_names.size());
  Counts counts{none, none, none};
  for (size_t i = 0; i < board.pools.size(); ++i)
    Count(job, board.pools[i], job.fit[i], lack, counts);
  lack.kept = ByJob(board, counts.kept);
  lack.busy = ByJob(board, counts.busy);
  lack.without_device_busy = ByJob(board, counts.without_device);
  std::erase_if(lack.lacking, [](const auto& need) { return need.second == 0; });
  lack.reason = ReasonOf(lack);
  return lack;
}

}  // namespace longhaul
