#include "tests/simulation/coordinator_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/evaluation_reports.h"
#include "coordinator/effects/owner_arbiter.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/plan_message.h"
#include "coordinator/store/data_folder.h"
#include "coordinator/sync/round_plan.h"
#include "tests/scenarios/core_text.h"
#include "tests/simulation/coordinator_life.h"
#include "worker/session/plan_conversion.h"

namespace longhaul::simulation {
namespace {

// After so long a stream that makes no progress is ended.
constexpr absl::Duration kSlowReader = absl::Seconds(90);
// A folder that was sent and that no job needs is removed so long after its last use.
constexpr absl::Duration kUploadKeep = absl::Seconds(5);

}  // namespace

bool CoordinatorNode::Runner::Submit(Task task) {
  World& world = *node_->world_;
  auto shared = std::make_shared<Task>(std::move(task));
  free_at_ = std::max(free_at_, world.loop.now()) + world.Between(absl::ZeroDuration(), at_most_);
  Views views;
  if (applies_) views = node_->Decided();
  world.loop.At(free_at_, [node = node_, life = node_->lives_, shared, views, applies = applies_] {
    if (life != node->lives_ || !node->up()) return;
    node->Enter([&] {
      node->MayDie();
      node->views_ = views;
      node->world_->applies = applies;
      std::move (*shared)();
      node->world_->applies = false;
      node->Observe();
      node->views_.clear();
      node->MayDie();
    });
  });
  return true;
}

// A round whose files could not be read is tried again: pools that became ready meanwhile had no
// part in the decision.
CoordinatorNode::Views CoordinatorNode::Decided() {
  Views views;
  for (const auto& job : life_->performer->All()) {
    const auto view = life_->performer->View(job->id());
    for (int f = 0; view.has_value() && f < static_cast<int>(view->fragments.size()); ++f) {
      const FragmentKey key{job->id(), f};
      const coordinator::FragmentView& fragment = view->fragments[f];
      const auto first = closed_.find(key);
      if (first != closed_.end() &&
          (!fragment.applying || first->second.fragments[f].version != fragment.version))
        closed_.erase(first);
      if (!fragment.applying) continue;
      const auto& then = closed_.try_emplace(key, *view).first->second.participants;
      coordinator::JobView& decided = views.emplace(key, *view).first->second;
      std::erase_if(decided.participants, [&](const coordinator::ParticipantView& p) {
        return std::none_of(then.begin(), then.end(), [&](const auto& t) {
          return t.pool == p.pool && t.incarnation == p.incarnation && t.start_step.has_value();
        });
      });
    }
  }
  return views;
}

CoordinatorNode::CoordinatorNode(World* world, const std::string& database)
    : world_(world),
      database_(database),
      meta_(*MetaStore::Open(database_)),
      disk_(std::make_unique<MemoryFileSystem>()) {
  LH_CHECK(CreateDirs(*disk_, JobsFolder(kDataDir)).ok(), "an empty disk takes folders");
}

CoordinatorNode::~CoordinatorNode() = default;

coordinator::Performer& CoordinatorNode::performer() const { return *life_->performer; }

bool CoordinatorNode::Enter(const std::function<void()>& run) {
  if (!up()) return false;
  const int64_t life = lives_;
  try {
    run();
  } catch (const Died&) {
    Crash();
  }
  return life == lives_;
}

void CoordinatorNode::MayDie() {
  if (!world_->faults || !world_->Chance(world_->coordinator_crash_chance)) return;
  throw Died();
}

void CoordinatorNode::Step(const coordinator::Event& event, const Answer& answer) {
  // It may be answered later: when the disk has room.
  life_->performer->Step(event, [this, answer](const std::optional<coordinator::Answer>& given) {
    MayDie();
    if (given.has_value()) {
      if (world_->trace) world_->Trace("coordinator", ToText(*given));
      if (answer) answer(*given);
    }
    MayDie();
  });
}

void CoordinatorNode::Join(coordinator::JoinPool join, const Answer& answer) {
  if (join.nodes > 1)
    join.fresh = world_->mutation == Mutation::kReusedGroup ? "g" : absl::StrCat("g", ++groups_);
  Enter([&] {
    std::vector<NodeView> before;
    if (join.nodes > 1) {
      // Leases end now that would end with the join.
      life_->performer->PassTime();
      before = NodesOf(join.pool);
    }
    Step(join, [this, join, before, answer](const coordinator::Answer& given) {
      const coordinator::Answer granted = Granted(given);
      const auto* grant = std::get_if<coordinator::GrantLease>(&granted);
      if (grant != nullptr && grant->node.has_value())
        world_->groups.Joined(join, before, *grant->node);
      answer(granted);
    });
  });
}

void CoordinatorNode::Heartbeat(const coordinator::Heartbeat& heartbeat, const Answer& answer) {
  Enter([&] {
    coordinator::Heartbeat event = heartbeat;
    if (const absl::Status taken = TakeEvaluations(event); !taken.ok())
      return answer(coordinator::Refuse{.status = taken});
    Step(event, [this, event, answer](const coordinator::Answer& given) {
      const auto job = life_->performer->Find(event.job);
      if (job != nullptr && std::holds_alternative<coordinator::GrantLease>(given))
        coordinator::EvaluationsStored(*job, event.pool, event.evaluations);
      answer(Granted(given));
    });
  });
}

absl::Status CoordinatorNode::TakeEvaluations(coordinator::Heartbeat& heartbeat) {
  const auto job = life_->performer->Find(heartbeat.job);
  if (job == nullptr || !job->resolved.has_value()) return absl::OkStatus();
  const auto place = life_->performer->Place(job->id(), heartbeat.pool);
  const std::string& incarnation =
      heartbeat.running.empty() ? heartbeat.incarnation : heartbeat.running;
  if (!place.has_value() || place->incarnation != incarnation || !place->live)
    return absl::OkStatus();
  auto reports = coordinator::TakeEvaluations(*job, heartbeat.pool, heartbeat.evaluations);
  if (!reports.ok()) return reports.status();
  heartbeat.evaluations = std::move(reports->taken);
  return absl::OkStatus();
}

coordinator::Answer CoordinatorNode::Granted(const coordinator::Answer& given) {
  const auto* granted = std::get_if<coordinator::GrantLease>(&given);
  if (granted == nullptr) return given;
  coordinator::GrantLease grant = *granted;
  if (grant.assignment.has_value())
    world_->checker.Placed(grant.assignment->job, grant.assignment->ordinal, grant.pool);
  if (!grant.node.has_value()) return grant;
  if (world_->mutation == Mutation::kStaleNumber) {
    const std::string machine = grant.incarnation.substr(0, grant.incarnation.find('.'));
    const bool whole = grant.node->ranks > 0;
    const auto first = first_places_.find({grant.pool, machine});
    if (first != first_places_.end()) {
      grant.node->node = first->second.node;
      if (whole) grant.node->first_rank = first->second.first_rank;
    } else if (whole) {
      first_places_[{grant.pool, machine}] = *grant.node;
    }
  }
  world_->groups.Placed(grant.pool, grant.incarnation, *grant.node);
  return grant;
}

std::vector<NodeView> CoordinatorNode::NodesOf(const std::string& pool) const {
  for (coordinator::PoolView& view : life_->performer->Pools()) {
    if (view.pool == pool) return std::move(view.nodes);
  }
  return {};
}

void CoordinatorNode::Leave(const coordinator::LeavePool& leave) {
  Enter([&] { Step(leave, nullptr); });
}

void CoordinatorNode::Watch(const RankId& who, Stream stream) {
  Enter([&] {
    Step(coordinator::RankReady{who.job, who.pool, who.incarnation, who.rank},
         [this, who, stream](const coordinator::Answer& answer) {
           if (const auto* refuse = std::get_if<coordinator::Refuse>(&answer))
             return stream(session::PlanRefused{refuse->status, refuse->reason});
           const auto& admitted = std::get<coordinator::AdmitRank>(answer);
           const auto view = life_->performer->View(who.job);
           // As SyncService: it ended while the admission waited for the disk.
           if (!view.has_value()) {
             return stream(session::PlanRefused{absl::FailedPreconditionError("the job has ended"),
                                                "JOB_ENDED"});
           }
           world_->checker.Admitted(admitted);
           const v1::PlanEvent event =
               coordinator::MakePlan(*life_->performer->Find(who.job), *view, admitted);
           absl::StatusOr<session::Plan> plan =
               session::PlanFromProto(event.plan(), {who.pool, who.incarnation});
           if (!plan.ok()) {
             return world_->checker.Violation(
                 absl::StrCat("a plan cannot be read: ", plan.status().message()));
           }
           stream(session::PlanReceived{*std::move(plan)});
           streams_[{who.job, who.pool, who.rank}] = {who.incarnation, stream};
         });
  });
}

std::optional<absl::Status> CoordinatorNode::Push(const PushRequest& push) {
  absl::Status status;
  const bool alive = Enter([&] {
    const RankId& from = push.from;
    PushHandler handler = life_->fragments.MakePushHandler();
    v1::PushHeader header;
    header.set_job_id(from.job);
    header.set_pool(from.pool);
    header.set_incarnation(from.incarnation);
    header.set_fragment(push.fragment);
    header.set_version(push.version);
    header.set_kind(ToProto(push.kind));
    header.set_codec(v1::FP32);
    const bool weighted = world_->mutation != Mutation::kLostWeight;
    header.set_weight(weighted ? static_cast<double>(push.weight) : 1);
    status = handler.on_header(header).status();
    CodedChunk chunk;
    std::vector<float> values;
    Words words = push.words;
    if (world_->mutation == Mutation::kApplyTwice && push.kind != RoundKind::kSeed)
      words =
          first_words_.try_emplace({from.job, push.fragment, push.version}, words).first->second;
    for (int i = 0; i < kWords; ++i) {
      if (!from.Owns(i)) continue;
      chunk.segments.push_back({i, kBlockElements, 0});
      values.insert(values.end(), kBlockElements, words[i]);
    }
    chunk.payload_bytes = static_cast<int64_t>(values.size() * sizeof(float));
    chunk.pieces = {
        {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)}};
    if (status.ok()) status = handler.on_chunk(header, chunk);
    if (status.ok()) MayDie();
    if (status.ok()) status = handler.on_complete(header).status();
    handler.on_end(status, {});
    if (status.ok() && world_->bad_reads && world_->faults) StrikeParts(push);
  });
  if (!alive) return std::nullopt;
  return status;
}

std::optional<PullAnswer> CoordinatorNode::Pull(const PullRequest& pull) {
  PullAnswer answer;
  const bool alive = Enter([&] {
    PullHandler handler = life_->fragments.MakePullHandler();
    v1::PullRequest request;
    request.set_job_id(pull.from.job);
    request.set_pool(pull.from.pool);
    request.set_incarnation(pull.from.incarnation);
    request.set_fragment(pull.fragment);
    request.set_version(pull.version);
    request.set_whole(pull.whole);
    v1::BlockRange* blocks = request.add_blocks();
    blocks->set_first(0);
    blocks->set_count(kWords);
    absl::StatusOr<PullSource> source = handler.on_request(request);
    answer.refused = source.status();
    if (!source.ok()) return;
    if (world_->faults && world_->Chance(0.02)) Dawdle(*source);
    answer.version = source->header.version();
    for (int64_t sent = 0; sent < source->header.payload_bytes();) {
      const absl::StatusOr<CodedBlocks> chunk = source->next();
      answer.refused = chunk.status();
      if (!chunk.ok()) return;
      const auto* values = reinterpret_cast<const float*>(chunk->payload.data());
      for (const SegmentRef& segment : chunk->segments) {
        for (int64_t block = 0; block * kBlockElements < segment.elements; ++block)
          answer.words[segment.first_block + block] = values[block * kBlockElements];
        values += segment.elements;
      }
      sent += static_cast<int64_t>(chunk->payload.size());
    }
  });
  if (!alive) return std::nullopt;
  return answer;
}

void CoordinatorNode::Dawdle(const PullSource& source) {
  const int64_t reader = ++readers_;
  life_->slow_readers.emplace(reader, source);
  world_->loop.After(world_->Between(absl::ZeroDuration(), kSlowReader),
                     [this, reader, life = lives_] {
                       if (life == lives_ && up())
                         Enter([&] { life_->slow_readers.erase(reader); });
                     });
}

// --- Arbiter.

absl::Status CoordinatorNode::Judge(const coordinator::ContributionId& contribution) const {
  return life_->performer->Judge(contribution);
}

absl::Status CoordinatorNode::CheckReader(const std::string& job, const std::string& pool,
                                          const std::string& incarnation) const {
  return life_->performer->CheckPlace(job, pool, incarnation);
}

std::set<int64_t> CoordinatorNode::InitialSteps(const std::string& job) const {
  return life_->performer->InitialSteps(job);
}

absl::Status CoordinatorNode::Complete(const coordinator::ContributionId& contribution) {
  const auto verdict = std::make_shared<std::optional<absl::Status>>();
  life_->performer->Step(coordinator::ContributionComplete{contribution},
                         [this, verdict](const std::optional<coordinator::Answer>& answer) {
                           MayDie();
                           *verdict =
                               answer.has_value()
                                   ? coordinator::ToStatus(std::get<coordinator::Refuse>(*answer))
                                   : absl::OkStatus();
                           MayDie();
                         });
  // It waits for the disk.
  return verdict->value_or(absl::UnavailableError("the coordinator could not decide in time"));
}

void CoordinatorNode::ReportStoreFailure(const std::string& job, const absl::Status& status) {
  world_->checker.Violation(absl::StrCat("a store failed: ", job, ": ", status.message()));
}

// --- Publisher.

void CoordinatorNode::SeedRequested(const coordinator::LiveJob& job,
                                    const coordinator::RequestSeed& request) {
  MayDie();
  for (const auto& [key, watcher] : streams_) {
    if (std::get<0>(key) == job.id() && std::get<1>(key) == request.pool)
      watcher.stream(session::SeedRequested{});
  }
}

void CoordinatorNode::CommitPublished(const coordinator::LiveJob& job,
                                      const coordinator::PublishCommit& commit) {
  MayDie();
  Observe();
  world_->checker.Published(job.id(), commit.round.fragment, commit.round.version);
  const v1::Commit message =
      coordinator::ToProto(*job.progress.commit(commit.round.fragment), job.id());
  for (const auto& [key, watcher] : streams_) {
    const auto& [id, pool, rank] = key;
    if (id != job.id()) continue;
    const auto read = session::CommitFromProto(message, {pool, watcher.incarnation});
    watcher.stream(session::CommitPublished{commit.round.fragment, *read});
  }
}

void CoordinatorNode::RoundCalled(const coordinator::LiveJob& job,
                                  const coordinator::CallRound& call) {
  MayDie();
  for (const auto& [key, watcher] : streams_) {
    if (std::get<0>(key) == job.id())
      watcher.stream(session::RoundCalled{call.round.fragment, call.round.version});
  }
}

std::string CoordinatorNode::StatusOf(const coordinator::LiveJob&, const JobRecord&,
                                      const std::optional<JobFault>&) {
  return "for people";
}

void CoordinatorNode::PoolReleased(const coordinator::LiveJob& job,
                                   const coordinator::ReleasePool& release) {
  MayDie();
  std::erase_if(streams_, [&](const auto& entry) {
    const auto& [id, pool, rank] = entry.first;
    if (id != job.id() || pool != release.pool || entry.second.incarnation != release.incarnation)
      return false;
    entry.second.stream(session::PlanRefused{
        release.status, absl::IsAborted(release.status) ? "POOL_LOST" : "NOT_ASSIGNED"});
    return true;
  });
}

void CoordinatorNode::JobEnded(const coordinator::LiveJob& job, const coordinator::EndJob& end) {
  MayDie();
  if (world_->trace) world_->Trace("coordinator", ToText(coordinator::Notice(end)));
  if (end.state == JobState::kQuarantined) {
    ++world_->quarantined;
    if (!world_->damage.files().contains(job.id()))
      world_->checker.Violation("a job was quarantined: " + end.fault->message);
  } else {
    world_->checker.Ended(job.id(), end.state);
  }
  if (end.state == JobState::kFailed && !CouldBeDone()) world_->checker.MayFail(job.id());
  std::erase_if(streams_, [&](const auto& entry) {
    if (std::get<0>(entry.first) != job.id()) return false;
    entry.second.stream(session::Ended{JobStateName(end.state)});
    return true;
  });
}

bool CoordinatorNode::CouldBeDone() const {
  for (const coordinator::PoolView& pool : life_->performer->Pools()) {
    const bool here = pool.state != coordinator::PoolState::kLost &&
                      pool.state != coordinator::PoolState::kAway &&
                      pool.state != coordinator::PoolState::kDraining;
    if (here && !world_->misconfigured.contains(pool.pool)) return true;
  }
  return false;
}

void CoordinatorNode::JobChanged(const coordinator::LiveJob& job) {
  world_->checker.Shown(job.id(), job.state() == JobState::kPaused);
}

Uploads* CoordinatorNode::FindUploads() {
  if (life_->uploads == nullptr) {
    auto opened = Uploads::Open(&life_->filling, &life_->clock,
                                {.data_dir = kDataDir, .keep = kUploadKeep, .free_min = 0});
    if (opened.ok()) life_->uploads = *std::move(opened);
  }
  return life_->uploads.get();
}

// --- The clock, and what became durable.

void CoordinatorNode::Tick() {
  if (!up()) return;
  const auto tick = [this] {
    life_->performer->PassTime();
    Uploads* const uploads = world_->uploads ? FindUploads() : nullptr;
    if (uploads == nullptr) return;
    uploads->SetNeeded(life_->performer->InitialUploads());
    uploads->Sweep();
  };
  if (!Enter(tick)) return;
  if (world_->mutation == Mutation::kStaleDisk && world_->Chance(0.2))
    earlier_disk_ = disk_->CrashCopy(UnsyncedFate::kDropped);
  world_->loop.After(absl::Milliseconds(500), [this, life = lives_] {
    if (life == lives_) Tick();
  });
}

}  // namespace longhaul::simulation
