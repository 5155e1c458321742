// Which idle pools get which job: placement asked, its answer carried out.
#include <algorithm>

#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

PoolDevice DeviceOf(bool cuda) { return cuda ? PoolDevice::kCuda : PoolDevice::kCpu; }

}  // namespace

// Whether a pool that comes now could still contribute.
bool Coordinator::TakesPools(const Job& job) {
  switch (job.state()) {
    case JobState::kPending:
    case JobState::kSeeding:
      return true;
    case JobState::kRunning:
      return job.store == StoreState::kOpen && job.exchange->NewcomerStart().has_value();
    default:
      return false;
  }
}

bool Coordinator::CouldDo(const Member& member, const Job& job) {
  const JobOptions& options = job.options;
  const auto& names = options.pool_names;
  if (!names.empty() && std::find(names.begin(), names.end(), member.pool) == names.end())
    return false;
  if (options.cuda && !member.traits.cuda) return false;
  const auto has = [&](const std::string& need) {
    return member.traits.capabilities.contains(need);
  };
  return std::all_of(options.needs.begin(), options.needs.end(), has);
}

JobDemand Coordinator::DemandOf(const Job& job) const {
  const JobOptions& options = job.options;
  const Participants& participants = job.exchange->participants();
  const int live = participants.live_count();
  // A job that runs goes on with one pool.
  const int wanted = job.state() == JobState::kPending ? options.pools_min : 1;
  JobDemand demand{.job = job.id,
                   .name = options.name,
                   .missing_min = std::max(0, wanted - live),
                   .room = std::max(0, options.pools_max - participants.present_count()),
                   .live = live,
                   .open = TakesPools(job),
                   .device = DeviceOf(options.cuda),
                   .needs = options.needs,
                   .names = options.pool_names};
  if (job.lacks_since.has_value()) demand.waited = now_ - *job.lacks_since;
  demand.excluded = job.set_asides.Excluded(now_);
  return demand;
}

void Coordinator::PlacePools() {
  std::vector<PoolOffer> offers;
  for (const auto& [pool, member] : membership_.members()) {
    if (!member.live || !member.joined || member.draining) continue;
    PoolOffer& offer = offers.emplace_back(PoolOffer{.pool = pool,
                                                     .ranks = member.traits.ranks,
                                                     .device = DeviceOf(member.traits.cuda),
                                                     .capabilities = &member.traits.capabilities,
                                                     .turn = member.turn});
    if (const auto place = places_.find(pool); place != places_.end())
      offer.busy_with = Find(place->second.job)->options.name;
  }
  std::vector<JobDemand> demands;
  placement_at_ = absl::InfiniteFuture();
  for (const auto& [order, job] : in_order_) {
    if (!job->exchange.has_value() || job->state() == JobState::kQuarantined) continue;
    demands.push_back(DemandOf(*job));
    placement_at_ = std::min(placement_at_, job->set_asides.NextRetry(now_));
    job->lacks.clear();
  }
  const Placement placement = longhaul::Place(offers, demands);
  for (const PlacedPool& placed : placement.assignments) {
    Seat(*Find(placed.job), placed.pool, membership_.Find(placed.pool)->incarnation);
  }
  for (const Lack& lack : placement.lacks) Find(lack.job)->lacks = Sentence(lack);
  for (const auto& [order, job] : in_order_) {
    if (job->lacks.empty()) {
      job->lacks_since.reset();
    } else if (!job->lacks_since.has_value()) {
      job->lacks_since = now_;
    }
  }
  if (placement.reconsider_in != absl::InfiniteDuration())
    placement_at_ = std::min(placement_at_, now_ + placement.reconsider_in);
}

}  // namespace longhaul::coordinator
