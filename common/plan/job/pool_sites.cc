#include "common/plan/job/pool_sites.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/plan/job/rank_costs.h"

namespace longhaul::plan {
namespace {

// Less is too short to tell a speed: the first steps are slow.
constexpr double kComputeSecondsMin = 5;

bool MayWork(const ResolvedJob& job, const v1::Pool& pool) {
  if (pool.state() == v1::LOST || pool.state() == v1::DRAINING) return false;
  const bool cuda = job.spec.train().device() == v1::CUDA;
  if ((pool.device() == v1::CUDA) != cuda) return false;
  const auto& names = job.spec.pools().names();
  return names.empty() || std::find(names.begin(), names.end(), pool.name()) != names.end();
}

const v1::PoolProgress* ProgressOf(const v1::Job& job, const std::string& pool) {
  for (const v1::PoolProgress& progress : job.pools()) {
    if (progress.pool() == pool && progress.compute_seconds() >= kComputeSecondsMin &&
        progress.ranks() > 0)
      return &progress;
  }
  return nullptr;
}

// 10^12 operations per second of a rank, in the newest job that tells.
std::optional<double> TeraflopsOf(const ResolvedJob& planned, const std::string& pool,
                                  const v1::ListJobsResponse& jobs) {
  const v1::TrainSpec& train = planned.spec.train();
  for (const v1::Job& job : jobs.jobs()) {
    const v1::PoolProgress* const progress = ProgressOf(job, pool);
    const v1::TrainSpec& trained = job.spec().train();
    if (progress == nullptr || !job.spec().model().has_transformer() ||
        trained.device() != train.device() || trained.precision() != train.precision())
      continue;
    // Of another version, or shortened: then it does not resolve.
    const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(job.spec());
    if (!resolved.ok()) continue;
    return static_cast<double>(progress->tokens()) * OperationsPerToken(*resolved) /
           progress->compute_seconds() / progress->ranks() / 1e12;
  }
  return std::nullopt;
}

}  // namespace

v1::Sites SitesOfPools(const ResolvedJob& job, const v1::ListPoolsResponse& pools,
                       const v1::ListJobsResponse& jobs) {
  v1::Sites sites;
  for (const v1::Pool& pool : pools.pools()) {
    if (!MayWork(job, pool)) continue;
    v1::PoolSite& site = *sites.add_pools();
    site.set_name(pool.name());
    site.set_nodes(std::max(1, pool.nodes_size()));
    site.set_ranks(std::max(1, pool.ranks() / site.nodes()));
    const auto teraflops = TeraflopsOf(job, pool.name(), jobs);
    site.set_speed_measured(teraflops.has_value());
    if (teraflops.has_value()) site.set_teraflops(*teraflops);
    if (pool.has_figures()) *site.mutable_figures() = pool.figures();
  }
  return sites;
}

}  // namespace longhaul::plan
