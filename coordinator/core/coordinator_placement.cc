// Which idle pools get which job: asks placement, and carries out its answer. A job that has not
// begun gets none before its state has room in memory.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

bool Coordinator::CouldDo(const std::string& pool, const PoolTraits& traits, const Job& job) {
  const JobOptions& options = job.options;
  const auto& names = options.pool_names;
  if (!names.empty() && std::find(names.begin(), names.end(), pool) == names.end()) return false;
  if (options.cuda && !traits.cuda) return false;
  const auto has = [&](const std::string& need) { return traits.capabilities.contains(need); };
  return std::all_of(options.needs.begin(), options.needs.end(), has);
}

bool Coordinator::AwaitsStore(const Job& job) {
  return job.store == StoreState::kClosed && job.state() != JobState::kPending &&
         job.state() != JobState::kQuarantined && job.pause != PauseStage::kPaused && !job.ended();
}

bool Coordinator::HoldsMemory(const Job& job) {
  return job.store != StoreState::kClosed ||
         (job.state() == JobState::kPending && job.exchange->participants().live_count() > 0);
}

bool Coordinator::TakesMemory(const Job& job) { return HoldsMemory(job) || AwaitsStore(job); }

int64_t Coordinator::MemoryLeft(bool (*takes)(const Job&)) const {
  int64_t left = options_.memory;
  for (const auto& [order, job] : in_order_) {
    if (takes(*job)) left -= job->options.memory;
  }
  return left - ended_.memory();
}

std::optional<std::string> Coordinator::MemoryLack(const Job& job, int64_t memory_left) const {
  if (HoldsMemory(job) || job.options.memory <= memory_left) return std::nullopt;
  constexpr double kGb = 1e9;
  return absl::StrFormat("%.3g GB of coordinator memory: %.3g of %.3g GB are free",
                         static_cast<double>(job.options.memory) / kGb,
                         static_cast<double>(std::max<int64_t>(0, memory_left)) / kGb,
                         static_cast<double>(options_.memory) / kGb);
}

void Coordinator::OpenWithinMemory(Job& job) {
  if (!AwaitsStore(job) || MemoryLack(job, MemoryLeft(HoldsMemory)).has_value()) return;
  job.store = StoreState::kOpening;
  out_.works.push_back(OpenStore{.job = job.id, .create = job.state() == JobState::kSeeding});
}

// A job whose state has no room gives up its places: another one took its memory after its pools
// were all lost before it began, or there is less memory than before a restart.
void Coordinator::ShareMemory() {
  const auto release_pools = [this](Job& job) {
    ReleaseAll(job, absl::FailedPreconditionError(absl::StrCat(
                        "job ", job.options.name,
                        " waits for coordinator memory; this pool is idle meanwhile")));
  };
  int64_t left = MemoryLeft(TakesMemory);
  for (auto it = in_order_.rbegin(); it != in_order_.rend(); ++it) {
    Job& job = *it->second;
    if (job.state() != JobState::kPending) continue;
    const int64_t held = HoldsMemory(job) ? job.options.memory : 0;
    if (job.options.memory <= left + held) continue;
    left += held;
    release_pools(job);
  }
  for (const auto& [order, job] : in_order_) {
    OpenWithinMemory(*job);
    if (AwaitsStore(*job)) release_pools(*job);
  }
}

JobDemand Coordinator::DemandOf(const Job& job, int64_t memory_left) const {
  const JobOptions& options = job.options;
  const Participants& participants = job.exchange->participants();
  const int live = participants.live_count();
  // To begin again after a pause a job needs as many pools as at first. If it runs, one pool is
  // enough to continue, but a quorum has to be complete: pools that two jobs have, of which neither
  // has a quorum, would wait for ever.
  const bool begins =
      job.state() == JobState::kPending || (job.pause == PauseStage::kResumed && live == 0);
  const int continues = options.rounds.lockstep() ? 1 : options.rounds.quorum;
  const int wanted = begins ? options.pools_min : continues;
  JobDemand demand{.job = job.id,
                   .name = options.name,
                   .missing_min = std::max(0, wanted - live),
                   .room = std::max(0, options.pools_max - participants.present_count()),
                   .live = live,
                   .open = TakesPools(job) && !MemoryLack(job, memory_left).has_value(),
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
  ShareMemory();
  while (true) {
    int64_t memory_left = MemoryLeft(TakesMemory);
    std::vector<JobDemand> demands;
    for (const auto& [order, job] : in_order_) {
      if (job->exchange.has_value() && job->state() != JobState::kQuarantined)
        demands.push_back(DemandOf(*job, memory_left));
    }
    // Thousands of pools may join before there is a job.
    const Placement placement = demands.empty() ? Placement() : Place(Offers(), demands);
    bool again = false;
    for (const PlacedPool& placed : placement.assignments) {
      Job& job = *Find(placed.job);
      // A job that begins now may leave too little for another one. That one's pools are placed
      // again.
      if (MemoryLack(job, memory_left).has_value()) {
        again = true;
        continue;
      }
      if (!TakesMemory(job)) memory_left -= job.options.memory;
      Seat(job, placed.pool, membership_.Find(placed.pool)->incarnation);
    }
    again |= ReleasePartialSets(placement.lacks);
    // What is left or released is placed by this loop.
    placement_due_ = false;
    if (again) continue;
    Explain(placement);
    return;
  }
}

// A job that lost a part of its pools before it could begin releases the others if another job may
// begin by that. Else they go on to prepare, and may report a fault of theirs.
bool Coordinator::ReleasePartialSets(const std::vector<Lack>& lacks) {
  bool released = false;
  for (const Lack& lack : lacks) {
    Job& job = *Find(lack.job);
    if (job.state() != JobState::kPending) continue;
    for (Participant& p : job.exchange->participants().all()) {
      if (!p.live() || !AnotherJobGains(job, p.pool)) continue;
      Drop(
          job, p, Presence::kLeft,
          absl::FailedPreconditionError(absl::StrCat(
              "job ", job.options.name, " waits for its other pools; this one is idle meanwhile")));
      released = true;
    }
  }
  return released;
}

// If `job` releases the pool: another one could use it, or waits for the memory that `job` takes.
bool Coordinator::AnotherJobGains(const Job& job, const std::string& pool) const {
  const PoolTraits& traits = membership_.Find(pool)->traits;
  const int64_t memory_left = MemoryLeft(TakesMemory);
  return std::any_of(in_order_.begin(), in_order_.end(), [&](const auto& entry) {
    const Job& other = *entry.second;
    if (&other == &job || !other.exchange.has_value() || !TakesPools(other)) return false;
    if (MemoryLack(other, memory_left).has_value()) return true;
    return CouldDo(pool, traits, other) && !other.set_asides.Blocked(pool, now_) &&
           other.exchange->participants().present_count() < other.options.pools_max;
  });
}

// Notes what each job lacks, and when placement is asked again.
void Coordinator::Explain(const Placement& placement) {
  placement_at_ = absl::InfiniteFuture();
  if (placement.reconsider_in != absl::InfiniteDuration())
    placement_at_ = now_ + placement.reconsider_in;
  const int64_t memory_left = MemoryLeft(TakesMemory), memory_held_left = MemoryLeft(HoldsMemory);
  std::map<std::string, std::string> words;
  for (const Lack& lack : placement.lacks) words[lack.job] = Sentence(lack);
  for (const auto& [order, job] : in_order_) {
    placement_at_ = std::min(placement_at_, job->set_asides.NextRetry(now_));
    const auto lacks = words.find(job->id);
    job->lacks = lacks == words.end() ? "" : lacks->second;
    if (AwaitsStore(*job)) {
      job->lacks = MemoryLack(*job, memory_held_left).value_or("");
    } else if (TakesPools(*job) && job->lacks.empty()) {
      job->lacks = MemoryLack(*job, memory_left).value_or("");
    }
    if (job->lacks.empty()) {
      job->lacks_since.reset();
    } else if (!job->lacks_since.has_value()) {
      job->lacks_since = now_;
    }
  }
}

}  // namespace longhaul::coordinator
