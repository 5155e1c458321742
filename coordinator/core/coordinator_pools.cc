// Pools: leases, and places in jobs.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "coordinator/core/coordinator.h"

namespace longhaul::coordinator {
namespace {

std::string ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return "POOL_LIVE";
    case absl::StatusCode::kResourceExhausted:
      return "POOLS_FULL";
    case absl::StatusCode::kAborted:
      return "POOL_REPLACED";
    default:
      return "POOL_UNKNOWN";
  }
}

}  // namespace

void Coordinator::On(const JoinPool& event) {
  const bool was_live = membership_.IsLive(event.pool, event.incarnation);
  if (!was_live && RefuseReturn(event.pool, event.incarnation)) return;
  const absl::Status joined = membership_.Join(event.pool, event.incarnation, event.ranks, now_);
  if (!joined.ok()) {
    Refuse refusal{joined, ReasonOf(joined)};
    if (absl::IsAlreadyExists(joined))
      refusal.retry_after = membership_.Find(event.pool)->lease_end - now_;
    return Emit(std::move(refusal));
  }
  if (!was_live) {
    DropOthers(event.pool, event.incarnation);
    TakeBack(event.pool, event.incarnation);
  }
  idle_changed_ = true;
  AssignIdle();
  Grant(event.pool, event.incarnation);
}

void Coordinator::On(const Heartbeat& event) {
  if (const absl::Status renewed = membership_.Renew(event.pool, event.incarnation, now_);
      !renewed.ok()) {
    return Emit(Refuse{renewed, ReasonOf(renewed)});
  }
  const auto place = places_.find(event.pool);
  if (place != places_.end() && place->second.job == event.job) {
    exchanges_.at(event.job).participants().at(place->second.ordinal).inner_step = event.inner_step;
  }
  Grant(event.pool, event.incarnation);
}

void Coordinator::On(const LeavePool& event) {
  if (!membership_.Leave(event.pool, event.incarnation)) return;
  const auto place = places_.find(event.pool);
  if (place == places_.end()) return;
  Job& job = *jobs_.Find(place->second.job);
  Drop(job, exchange(job).participants().at(place->second.ordinal), Presence::kLeft);
}

void Coordinator::ExpireLeases() {
  for (const Member& member : membership_.Expire(now_)) {
    const auto place = places_.find(member.pool);
    if (place == places_.end()) continue;
    Job& job = *jobs_.Find(place->second.job);
    Drop(job, exchange(job).participants().at(place->second.ordinal), Presence::kLost);
  }
}

// A pool whose lease had ended comes again. Refused if a job went on without it: its ranks hold
// parameters of the past, so it must come as another incarnation.
bool Coordinator::RefuseReturn(std::string_view pool, std::string_view incarnation) {
  const Member* member = membership_.Find(pool);
  if (member != nullptr && member->live)
    return false;  // Another incarnation has the name: Join refuses.
  for (Job& job : jobs_.jobs()) {
    if (job.lifecycle.ended()) continue;
    Participants& participants = exchange(job).participants();
    Participant* place = participants.Find(pool, incarnation);
    if (place == nullptr || place->presence == Presence::kLeft) continue;
    const bool full = participants.live_count() >= job.options.pools_max;
    if (place->presence == Presence::kLost && !full) continue;
    if (place->presence == Presence::kLost) Drop(job, *place, Presence::kMissed);
    Emit(Refuse{absl::AbortedError(
                    absl::StrFormat("job %s went on without pool %s; start anew", job.id, pool)),
                "POOL_LOST"});
    return true;
  }
  return false;
}

// Gives the pool the place again that it had when its lease ended.
void Coordinator::TakeBack(std::string_view pool, std::string_view incarnation) {
  for (Job& job : jobs_.jobs()) {
    if (job.lifecycle.ended()) continue;
    Participant* place = exchange(job).participants().Find(pool, incarnation);
    if (place == nullptr || place->presence != Presence::kLost) continue;
    place->presence = Presence::kLive;
    places_[place->pool] = {job.id, place->ordinal};
    exchange(job).PoolsChanged();
    Touch(job);
    return;
  }
}

// The name has a new owner: what earlier incarnations left behind is given up.
void Coordinator::DropOthers(std::string_view pool, std::string_view incarnation) {
  for (Job& job : jobs_.jobs()) {
    if (job.lifecycle.ended()) continue;
    for (Participant& p : exchange(job).participants().all()) {
      if (p.pool == pool && p.incarnation != incarnation && !p.gone())
        Drop(job, p, Presence::kLeft);
    }
  }
}

void Coordinator::Drop(const Job& job, Participant& participant, Presence presence) {
  Exchange& job_exchange = exchange(job);
  const bool was_ready = participant.ready();
  if (participant.live()) places_.erase(participant.pool);
  participant.presence = presence;
  if (participant.gone()) {
    Emit(PersistParticipantLeft{job.id, participant.pool, participant.incarnation,
                                participant.ordinal});
  }
  if (was_ready && job_exchange.participants().ready_count() == 0)
    jobs_.Find(job.id)->changed_at = now_;
  job_exchange.PoolsChanged();
  idle_changed_ = true;
  Touch(job);
}

void Coordinator::AssignIdle() {
  if (!std::exchange(idle_changed_, false)) return;
  std::vector<const Member*> idle;
  for (const auto& [pool, member] : membership_.members()) {
    if (member.live && member.joined && !places_.contains(pool)) idle.push_back(&member);
  }
  std::sort(idle.begin(), idle.end(),
            [](const Member* a, const Member* b) { return a->turn < b->turn; });
  for (const Member* member : idle) {
    Job* job = OldestOpenJob(member->pool);
    if (job == nullptr) continue;
    const Participant& p = exchange(*job).participants().Add(member->pool, member->incarnation);
    places_[p.pool] = {job->id, p.ordinal};
    Emit(PersistParticipant{job->id, p.pool, p.incarnation, p.ordinal, std::nullopt});
  }
}

Job* Coordinator::OldestOpenJob(std::string_view pool) {
  for (Job& job : jobs_.jobs()) {
    const JobOptions& options = job.options;
    if (job.lifecycle.ended() || job.lifecycle.state() == JobState::kFinishing) continue;
    const auto& names = options.pool_names;
    if (!names.empty() && std::find(names.begin(), names.end(), pool) == names.end()) continue;
    if (exchange(job).participants().live_count() >= options.pools_max) continue;
    if (job.lifecycle.state() == JobState::kRunning && !exchange(job).NewcomerStart().has_value())
      continue;
    return &job;
  }
  return nullptr;
}

void Coordinator::Grant(std::string_view pool, std::string_view incarnation) {
  GrantLease grant{std::string(pool), std::string(incarnation), options_.lease, std::nullopt};
  const auto place = places_.find(pool);
  if (place != places_.end())
    grant.assignment = Assignment{place->second.job, place->second.ordinal};
  Emit(std::move(grant));
}

}  // namespace longhaul::coordinator
