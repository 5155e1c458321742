#include "coordinator/simulation/simulated_coordinator.h"

#include <algorithm>
#include <variant>

namespace longhaul::coordinator {
namespace {

constexpr absl::Duration kTickEach = absl::Seconds(1);
// To open a store; to write checkpoints, bytes per second. Nominal: nothing waits for them but the
// job's end.
constexpr absl::Duration kOpening = absl::Milliseconds(100);
constexpr double kCheckpointBytesPerSecond = 1e9;

}  // namespace

SimulatedCoordinator::SimulatedCoordinator(sim::EventLoop* loop, Options options)
    : loop_(loop), options_(std::move(options)), fragments_(options_.exchange.fragments.size()) {
  stored_ = {.job = kSimulatedJob, .options = options_.job};
}

void SimulatedCoordinator::Begin(const Recovery& recovery) {
  core_ = std::make_unique<Coordinator>(
      CoordinatorOptions{.lease = options_.lease, .pools_max = std::max(1, options_.pools_max)},
      recovery, loop_->now());
  PassTime();
}

void SimulatedCoordinator::PassTime() {
  Step(Tick{});
  Later(kTickEach, [this] { PassTime(); });
}

void SimulatedCoordinator::Later(absl::Duration delay, std::function<void()> run) {
  loop_->After(delay, [this, life = life_, run = std::move(run)] {
    if (life == life_ && up()) run();
  });
}

void SimulatedCoordinator::Crash(absl::Duration back_after) {
  if (!up() || ended_.has_value()) return;
  ++restarts_;
  ++life_;
  core_.reset();
  streams_.clear();
  apply_free_ = absl::InfinitePast();
  for (Fragment& fragment : fragments_) fragment.called = false;
  loop_->After(back_after, [this, life = life_] {
    if (life == life_) Begin(Stored());
  });
}

Recovery SimulatedCoordinator::Stored() const {
  Recovery recovery;
  RecoveredJob& job = recovery.jobs.emplace_back(stored_);
  for (const auto& [ordinal, place] : places_) job.places.push_back(place);
  return recovery;
}

std::optional<Answer> SimulatedCoordinator::Step(const Event& event) {
  Decision decision = core_->Step(event, loop_->now());
  for (const Record& record : decision.records) Store(record);
  if (const auto* c = std::get_if<ContributionComplete>(&event);
      c != nullptr && !decision.answer.has_value()) {
    ++contributions_;
    fragments_[c->id.round.fragment].stored.contributors.push_back(
        {.pool = c->id.pool, .incarnation = c->id.incarnation});
  }
  if (!decision.notices.empty() || !decision.works.empty()) {
    // The caller gets the answer first.
    Later(absl::ZeroDuration(),
          [this, notices = std::move(decision.notices), works = std::move(decision.works)] {
            for (const Notice& notice : notices) Tell(notice);
            for (const Work& work : works) Do(work);
          });
  }
  return std::move(decision.answer);
}

void SimulatedCoordinator::Store(const Record& record) {
  if (const auto* place = std::get_if<StorePlace>(&record)) {
    places_[place->place.ordinal] = place->place;
  } else if (const auto* state = std::get_if<StoreJobState>(&record)) {
    stored_.state = state->state;
    if (state->fault.has_value()) fault_ = state->fault->message;
    if (IsEnded(state->state)) ended_ = state->state;
  } else if (const auto* evaluation = std::get_if<StoreEvaluation>(&record)) {
    const Evaluation& e = evaluation->evaluation;
    stored_.final_evaluation |= e.final && !e.of_pool;
    if (!e.of_pool) stored_.evaluation = {e.step, e.loss};
  } else if (const auto* pause = std::get_if<StorePause>(&record)) {
    stored_.pause = pause->stage;
  }
}

void SimulatedCoordinator::Tell(const Notice& notice) {
  if (const auto* commit = std::get_if<PublishCommit>(&notice)) {
    const Fragment& fragment = fragments_[commit->round.fragment];
    for (const auto& [pool, watcher] : streams_) {
      watcher.stream(session::CommitPublished{commit->round.fragment,
                                              CommitFor(fragment, pool, watcher.incarnation)});
    }
  } else if (const auto* seed = std::get_if<RequestSeed>(&notice)) {
    if (const auto found = streams_.find(seed->pool); found != streams_.end())
      found->second.stream(session::SeedRequested{});
  } else if (const auto* call = std::get_if<CallRound>(&notice)) {
    fragments_[call->round.fragment].called = true;
    for (const auto& [pool, watcher] : streams_)
      watcher.stream(session::RoundCalled{call->round.fragment, call->round.version});
  } else if (const auto* release = std::get_if<ReleasePool>(&notice)) {
    const auto found = streams_.find(release->pool);
    if (found == streams_.end() || found->second.incarnation != release->incarnation) return;
    const Stream stream = std::move(found->second.stream);
    streams_.erase(found);
    stream(session::PlanRefused{release->status,
                                absl::IsAborted(release->status) ? "POOL_LOST" : "NOT_ASSIGNED"});
  } else if (const auto* end = std::get_if<EndJob>(&notice)) {
    ended_ = end->state;
    if (end->fault.has_value()) fault_ = end->fault->message;
  }
}

session::Commit SimulatedCoordinator::CommitFor(const Fragment& fragment, const std::string& pool,
                                                const std::string& incarnation) const {
  const auto counted = fragment.counted.find(pool);
  return {.version = fragment.stored.version,
          .kind = fragment.kind,
          .evaluate = fragment.stored.evaluator == pool,
          .contributed = counted != fragment.counted.end(),
          .earlier = counted != fragment.counted.end() && counted->second != incarnation};
}

void SimulatedCoordinator::Do(const Work& work) {
  if (const auto* apply = std::get_if<ApplyRound>(&work)) return Do(*apply);
  if (std::holds_alternative<OpenStore>(work)) {
    Later(kOpening, [this] {
      StoreOpened opened{.job = kSimulatedJob};
      for (const Fragment& fragment : fragments_) opened.fragments.push_back(fragment.stored);
      Step(opened);
    });
  } else if (const auto* measure = std::get_if<MeasureRound>(&work)) {
    // All contributions look alike.
    RoundMeasured measured{measure->job, measure->round, {}};
    measured.contributions.resize(measure->contributors.size(), {.norm = 1});
    Later(absl::ZeroDuration(), [this, measured] { Step(measured); });
  } else if (const auto* checkpoint = std::get_if<WriteCheckpoint>(&work)) {
    double elements = 0;
    for (const auto& fragment : options_.exchange.fragments)
      elements += static_cast<double>(fragment.elements);
    Later(absl::Seconds(4 * elements / kCheckpointBytesPerSecond), [this, written = *checkpoint] {
      Step(CheckpointWritten{written.job, written.final, written.cycle, written.last});
    });
  } else if (std::holds_alternative<CloseStore>(work)) {
    Later(absl::ZeroDuration(), [this] { Step(StoreClosed{kSimulatedJob}); });
  } else if (std::holds_alternative<RemoveLog>(work)) {
    Later(absl::ZeroDuration(), [this] { Step(LogRemoved{kSimulatedJob}); });
  }
}

// One round at a time.
void SimulatedCoordinator::Do(const ApplyRound& work) {
  const plan::ExchangeSetting& exchange = options_.exchange;
  const double elements = static_cast<double>(exchange.fragments[work.round.fragment].elements);
  const double seconds = exchange.apply_seconds +
                         elements * static_cast<double>(work.contributors.size()) / exchange.apply;
  apply_free_ = std::max(apply_free_, loop_->now()) + absl::Seconds(seconds);
  fragments_[work.round.fragment].applying = work.contributors;
  Later(apply_free_ - loop_->now(), [this, round = work.round, evaluator = work.evaluator] {
    const auto& [fragment, version, kind] = round;
    Fragment& applied = fragments_[fragment];
    applied.stored.version = version;
    applied.stored.evaluator = evaluator;
    applied.stored.contributors.clear();
    applied.kind = kind;
    applied.called = false;
    applied.counted.clear();
    for (const Contributor& c : applied.applying) {
      applied.counted[c.pool] = c.incarnation;
      if (kind != RoundKind::kSeed && on_counted_)
        on_counted_(c.pool, c.incarnation, fragment, version);
    }
    applied.applying.clear();
    if (kind == RoundKind::kSkipped) ++skipped_;
    if (kind == RoundKind::kOuter || kind == RoundKind::kFinal) ++commits_;
    Step(RoundApplied{kSimulatedJob, round});
  });
}

session::Plan SimulatedCoordinator::PlanFor(const AdmitRank& admitted) const {
  session::Plan plan{.steps = options_.job.steps,
                     .alpha = options_.alpha,
                     .final_round = options_.job.final_round,
                     .start_step = admitted.start_step,
                     .ordinal = admitted.ordinal,
                     .seed = admitted.seed,
                     .all_evaluate_last = true,
                     .quorum = !options_.job.rounds.lockstep()};
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const Fragment& fragment = fragments_[f];
    const auto& contributors = fragment.stored.contributors;
    plan.fragments.push_back({.schedule = options_.job.schedule[f],
                              .newest = CommitFor(fragment, admitted.pool, admitted.incarnation),
                              .contributed = std::any_of(contributors.begin(), contributors.end(),
                                                         [&](const Contributor& c) {
                                                           return c.pool == admitted.pool &&
                                                                  c.incarnation ==
                                                                      admitted.incarnation;
                                                         }),
                              .called = fragment.called});
  }
  return plan;
}

void SimulatedCoordinator::Watch(const std::string& pool, const std::string& incarnation,
                                 Stream stream) {
  const std::optional<Answer> answer = Step(RankReady{kSimulatedJob, pool, incarnation, 0});
  if (!answer.has_value()) return;
  if (const auto* refuse = std::get_if<Refuse>(&*answer))
    return stream(session::PlanRefused{refuse->status, refuse->reason});
  stream(session::PlanReceived{PlanFor(std::get<AdmitRank>(*answer))});
  streams_[pool] = {incarnation, std::move(stream)};
}

SimulatedCoordinator::Pulled SimulatedCoordinator::Pull(const std::string& pool,
                                                        const std::string& incarnation,
                                                        int fragment, int64_t version) const {
  Pulled pulled{.refused = core_->CheckReader(kSimulatedJob, pool, incarnation),
                .version = fragments_[fragment].stored.version};
  if (!pulled.refused.has_value() && version >= 0 && version != pulled.version) {
    pulled.refused = Refuse{absl::FailedPreconditionError("another version is the newest"),
                            "VERSION_MISMATCH", pulled.version};
  }
  return pulled;
}

}  // namespace longhaul::coordinator
