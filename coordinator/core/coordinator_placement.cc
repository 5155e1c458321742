// Which idle pools get which job: asks placement, and carries out its answer.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

PoolDevice DeviceOf(bool cuda) { return cuda ? PoolDevice::kCuda : PoolDevice::kCpu; }

}  // namespace

// Whether a pool that comes now could still contribute.
bool Coordinator::TakesPools(const Job& job) {
  if (IsPaused(job.pause)) return false;
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
  // A job that runs needs only one pool, but to begin again after a pause as many as at first.
  const bool begins =
      job.state() == JobState::kPending || (job.pause == PauseStage::kResumed && live == 0);
  const int wanted = begins ? options.pools_min : 1;
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

std::vector<PoolOffer> Coordinator::Offers() const {
  std::vector<PoolOffer> offers;
  for (const auto& [pool, member] : membership_.members()) {
    if (!member.live || !member.joined || member.draining) continue;
    PoolOffer& offer = offers.emplace_back(PoolOffer{.pool = pool,
                                                     .device = DeviceOf(member.traits.cuda),
                                                     .capabilities = &member.traits.capabilities,
                                                     .turn = member.turn});
    if (const auto place = places_.find(pool); place != places_.end())
      offer.busy_with = Find(place->second.job)->options.name;
  }
  return offers;
}

void Coordinator::PlacePools() {
  while (true) {
    std::vector<JobDemand> demands;
    for (const auto& [order, job] : in_order_) {
      if (job->exchange.has_value() && job->state() != JobState::kQuarantined)
        demands.push_back(DemandOf(*job));
    }
    const Placement placement = longhaul::Place(Offers(), demands);
    for (const PlacedPool& placed : placement.assignments) {
      Seat(*Find(placed.job), placed.pool, membership_.Find(placed.pool)->incarnation);
    }
    const bool released = ReleasePartialSets(placement.lacks);
    // The released pools are placed by this loop.
    placement_due_ = false;
    if (released) continue;
    Explain(placement);
    return;
  }
}

// A job that lost a part of its pools before it could begin releases the others, so that they may
// work meanwhile.
bool Coordinator::ReleasePartialSets(const std::vector<Lack>& lacks) {
  bool released = false;
  for (const Lack& lack : lacks) {
    Job& job = *Find(lack.job);
    if (job.state() != JobState::kPending) continue;
    for (Participant& p : job.exchange->participants().all()) {
      if (!p.live()) continue;
      Drop(
          job, p, Presence::kLeft,
          absl::FailedPreconditionError(absl::StrCat(
              "job ", job.options.name, " waits for its other pools; this one is free meanwhile")));
      released = true;
    }
  }
  return released;
}

// Notes what each job lacks, and when placement is asked again.
void Coordinator::Explain(const Placement& placement) {
  placement_at_ = absl::InfiniteFuture();
  if (placement.reconsider_in != absl::InfiniteDuration())
    placement_at_ = now_ + placement.reconsider_in;
  std::map<std::string, std::string> words;
  for (const Lack& lack : placement.lacks) words[lack.job] = Sentence(lack);
  for (const auto& [order, job] : in_order_) {
    placement_at_ = std::min(placement_at_, job->set_asides.NextRetry(now_));
    const auto lacks = words.find(job->id);
    job->lacks = lacks == words.end() ? "" : lacks->second;
    if (job->lacks.empty()) {
      job->lacks_since.reset();
    } else if (!job->lacks_since.has_value()) {
      job->lacks_since = now_;
    }
  }
}

}  // namespace longhaul::coordinator
