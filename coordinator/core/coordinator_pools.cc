// Pools: leases, and places in jobs.
#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
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
  if (event.replaces != event.incarnation) LoseReplaced(event.pool, event.replaces);
  if (event.nodes > 1 || nodes_.Has(event.pool)) return JoinNode(event);
  if (Enter(event.pool, event.incarnation, {event.ranks, event.cuda, event.capabilities}))
    granting_ = {event.pool, event.incarnation};
}

bool Coordinator::Enter(const std::string& pool, const std::string& incarnation,
                        PoolTraits traits) {
  const bool was_live = membership_.IsLive(pool, incarnation);
  const Member* before = membership_.Find(pool);
  // A live pool that joins again as it is gives placement nothing new.
  const bool known = was_live && before->joined && !before->draining && before->traits == traits;
  if (!was_live && RefuseReturn(pool, incarnation)) return false;
  const absl::Status joined = membership_.Join(pool, incarnation, std::move(traits), now_);
  if (!joined.ok()) {
    Refuse refusal{joined, ReasonOf(joined)};
    if (absl::IsAlreadyExists(joined))
      refusal.retry_after = membership_.Find(pool)->lease_end - now_;
    AnswerWith(std::move(refusal));
    return false;
  }
  // Whoever holds the lease is not outdated.
  const bool was_outdated = outdated_.erase(pool) > 0;
  if (!was_live) TakeBack(pool, incarnation);
  // Now it is known whether the pool stops when it is asked to.
  Job* job = nullptr;
  const Participant* place = PlaceOf(pool, &job);
  if (place != nullptr && place->stopping) Touch(*job);
  placement_due_ |= !known || was_outdated;
  return true;
}

void Coordinator::On(const Heartbeat& event) {
  if (const absl::Status renewed = Renew(event.pool, event.incarnation); !renewed.ok())
    return AnswerWith(Refuse{renewed, ReasonOf(renewed)});
  granting_ = {event.pool, event.incarnation};
  // An agent may report draining for a group that has ended. It does not hold for the next group.
  const std::string& running = event.running.empty() ? event.incarnation : event.running;
  if (GroupOf(event.pool, event.incarnation) != running) return;
  if (event.draining) membership_.Drain(event.pool);
  Job* job = nullptr;
  Participant* participant = PlaceOf(event.pool, &job);
  if (participant == nullptr || job->id != event.job) return;
  // The agent does not know that the pool lost its place. An agent that knows begins again by
  // itself.
  if (participant->spent) {
    granting_.reset();
    return AnswerWith(MustBeginAgain(job->options.name, event.pool));
  }
  Report(event, *job, *participant);
}

// Takes what a pool reports about the job that it works on.
void Coordinator::Report(const Heartbeat& event, Job& job, Participant& participant) {
  // Of several nodes, node 0 reports progress.
  const std::optional<NodePlace> node = nodes_.PlaceOf(event.pool, event.incarnation);
  if (!node.has_value() || node->node == 0) {
    participant.inner_step = event.inner_step;
    if (event.merged && !std::exchange(participant.merged, true)) Touch(job);
  }
  if ((event.draining || event.stopping) && !participant.last_step.has_value()) {
    participant.last_step = event.inner_step;
    job.exchange->PoolsChanged();
    Touch(job);
  }
  const int number = node.has_value() ? node->node : 0;
  const size_t nodes = node.has_value() ? node->nodes : 1;
  if (event.finished && participant.nodes_finished.insert(number).second) {
    participant.finished = participant.nodes_finished.size() == nodes;
    Touch(job);
  }
  if (event.stopped && participant.nodes_stopped.insert(number).second) {
    participant.stopped = participant.nodes_stopped.size() == nodes;
    Touch(job);
  }
  for (const Evaluation& evaluation : event.evaluations)
    Evaluated(job, evaluation, participant.pool);
  if (event.fault.has_value()) SetPoolAside(job, participant, *event.fault);
}

void Coordinator::SetPoolAside(Job& job, Participant& participant, const JobFault& fault) {
  const std::string& pool = participant.pool;
  job.set_asides.Add(pool, fault, now_);
  out_.notices.push_back(
      PoolSetAside{job.id, pool, fault, job.set_asides.all().find(pool)->second.retry_at - now_});
  Release(job, participant,
          absl::FailedPreconditionError(absl::StrFormat("pool %s was set aside for job %s: %s",
                                                        pool, job.options.name, fault.message)));
  FailIfEveryPoolFails(job);
}

// If every pool reports the same fault, no other pool can help, so the job fails. A pool that took
// part and was lost, or whose nodes are not all here, has reported nothing: it may come.
void Coordinator::FailIfEveryPoolFails(Job& job) {
  if (job.exchange->participants().live_count() > 0) return;
  std::vector<std::string> eligible;
  for (const Participant& p : job.exchange->participants().all()) {
    const Member* member = membership_.Find(p.pool);
    const bool here = member != nullptr && member->live;
    if (p.presence != Presence::kLeft && !here) eligible.push_back(p.pool);
  }
  for (const auto& [pool, member] : membership_.members()) {
    if (member.live && member.joined && !member.draining && CouldDo(pool, member.traits, job))
      eligible.push_back(pool);
  }
  for (const NodeGroups::Forming& forming : nodes_.forming()) {
    if (CouldDo(forming.pool, nodes_.TraitsOf(forming.pool), job)) eligible.push_back(forming.pool);
  }
  std::optional<JobFault> verdict = job.set_asides.Verdict(eligible, now_);
  if (!verdict.has_value()) return;
  if (eligible.size() > 1) verdict->pool.clear();
  job.fault = std::move(verdict);
  End(job, JobState::kFailed);
}

void Coordinator::On(const LeavePool& event) {
  const std::string group(GroupOf(event.pool, event.incarnation));
  if (nodes_.Has(event.pool) && !nodes_.Leave(event.pool, event.incarnation, now_)) return;
  if (!membership_.Leave(event.pool, group)) return;
  Job* job = nullptr;
  Participant* participant = PlaceOf(event.pool, &job);
  if (participant == nullptr) return;
  const absl::Duration kept = std::min(event.return_within, options_.return_within);
  if (kept <= absl::ZeroDuration()) return Drop(*job, *participant, Presence::kLeft);
  participant->return_until = now_ + kept;
  Drop(*job, *participant, Presence::kAway);
}

void Coordinator::ExpireLeases() {
  for (const std::string& pool : nodes_.Expire(now_)) LosePool(pool);
  for (const Member& member : membership_.Expire(now_)) {
    nodes_.Break(member.pool, now_);
    LosePlace(member.pool);
  }
}

// Of a pool, or of a node of one.
void Coordinator::LoseReplaced(const std::string& pool, const std::string& incarnation) {
  if (nodes_.Has(pool) ? nodes_.Leave(pool, incarnation, now_)
                       : membership_.IsLive(pool, incarnation))
    LosePool(pool);
}

void Coordinator::LosePlace(const std::string& pool) {
  Job* job = nullptr;
  Participant* participant = PlaceOf(pool, &job);
  if (participant != nullptr && participant->live()) Drop(*job, *participant, Presence::kLost);
}

Participant* Coordinator::PlaceOf(std::string_view pool, Job** job) const {
  const auto place = places_.find(pool);
  if (place == places_.end()) return nullptr;
  Job& found = *jobs_.find(place->second.job)->second;
  if (job != nullptr) *job = &found;
  return &found.exchange->participants().at(place->second.ordinal);
}

// Called when a pool comes back after its lease ended. Refuses it if its job continued without it:
// its ranks have outdated parameters, so it must come as another incarnation.
bool Coordinator::RefuseReturn(const std::string& pool, const std::string& incarnation) {
  const Member* member = membership_.Find(pool);
  // Another incarnation has the name. Join refuses.
  if (member != nullptr && member->live) return false;
  Job* job = nullptr;
  Participant* place = PlaceOf(pool, &job);
  const bool lost =
      place != nullptr && place->presence == Presence::kLost && place->incarnation == incarnation;
  if (lost && job->exchange->participants().present_count() >= job->options.pools_max)
    Drop(*job, *place, Presence::kMissed);
  const auto outdated = outdated_.find(pool);
  if (outdated == outdated_.end() || outdated->second != incarnation) return false;
  AnswerWith(Refuse{absl::AbortedError(absl::StrFormat(
                        "a job continued without pool %s; its ranks must restart", pool)),
                    "POOL_LOST"});
  return true;
}

// Gives the pool its place again. A pool that lost only its lease continues as before. A pool that
// drained, or that comes as another incarnation, begins again.
void Coordinator::TakeBack(const std::string& pool, const std::string& incarnation) {
  Job* job = nullptr;
  Participant* place = PlaceOf(pool, &job);
  if (place == nullptr) return;
  if (place->presence == Presence::kLost && place->incarnation == incarnation) {
    place->presence = Presence::kLive;
    out_.notices.push_back(PoolPresence{.job = job->id, .pool = pool, .live = true});
    job->exchange->PoolsChanged();
    return Touch(*job);
  }
  // Whether the job takes pools is known once its store is open. The place is kept until then.
  if (place->presence == Presence::kAway && job->store == StoreState::kOpening) return;
  // Nobody saw the pool lost: another incarnation of it is here already.
  std::erase_if(out_.notices, [&](const Notice& notice) {
    const PoolPresence* presence = std::get_if<PoolPresence>(&notice);
    return presence != nullptr && presence->pool == pool && !presence->live;
  });
  // If this incarnation replaces a restored one, the restored one has no lease any more.
  Drop(*job, *place, Presence::kLeft);
  if (TakesPools(*job) && CouldDo(pool, membership_.Find(pool)->traits, *job) &&
      job->exchange->participants().present_count() < job->options.pools_max)
    Seat(*job, pool, incarnation);
}

void Coordinator::Seat(Job& job, const std::string& pool, const std::string& incarnation) {
  const Participant& participant = job.exchange->participants().Take(pool, incarnation);
  places_[pool] = {job.id, participant.ordinal};
  Persist(job, participant);
  if (job.pause == PauseStage::kResumed) {
    SetPause(job, PauseStage::kNone);
    job.gathers = true;
  }
  job.exchange->PoolsChanged();
}

void Coordinator::Persist(const Job& job, const Participant& p) {
  // The stored record stays. It says that this incarnation began the job and gave up its place.
  if (p.spent) return;
  out_.records.push_back(StorePlace{
      job.id,
      {p.pool, p.incarnation, p.ordinal, p.start_step, p.gone(), p.presence == Presence::kMissed,
       p.presence == Presence::kAway ? p.return_until : absl::InfinitePast()}});
}

void Coordinator::Drop(Job& job, Participant& participant, Presence presence, absl::Status why) {
  const bool was_ready = participant.ready();
  participant.presence = presence;
  if (participant.gone()) {
    places_.erase(participant.pool);
    if (why.ok()) {
      why = absl::AbortedError(
          absl::StrCat("pool ", participant.pool, " gave up its place in the job"));
    }
    out_.notices.push_back(ReleasePool{job.id, participant.pool, participant.incarnation, why});
  }
  if (presence == Presence::kMissed) outdated_[participant.pool] = participant.incarnation;
  if (presence != Presence::kLost) {
    Persist(job, participant);
  } else {
    out_.notices.push_back(PoolPresence{.job = job.id, .pool = participant.pool, .live = false});
  }
  if (was_ready && job.exchange->participants().ready_count() == 0) job.changed_at = now_;
  job.exchange->PoolsChanged();
  placement_due_ = true;
  Touch(job);
}

void Coordinator::Release(Job& job, Participant& participant, absl::Status why) {
  if (participant.live()) membership_.Requeue(participant.pool);
  Drop(job, participant, Presence::kLeft, std::move(why));
}

void Coordinator::ReleaseAll(Job& job, const absl::Status& why) {
  for (Participant& p : job.exchange->participants().all()) {
    if (!p.gone()) Release(job, p, why);
  }
}

GrantLease Coordinator::Grant(std::string_view pool, std::string_view incarnation) const {
  GrantLease grant{std::string(pool), std::string(incarnation), options_.lease, std::nullopt,
                   nodes_.PlaceOf(pool, incarnation)};
  const auto found = places_.find(pool);
  if (found == places_.end() || GroupOf(pool, incarnation).empty()) return grant;
  const auto& [job, ordinal] = found->second;
  const Participant& participant = Find(job)->exchange->participants().at(ordinal);
  if (participant.live()) grant.assignment = Assignment{job, ordinal, participant.stopping};
  return grant;
}

}  // namespace longhaul::coordinator
