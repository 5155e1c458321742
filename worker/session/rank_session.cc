#include "worker/session/rank_session.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/overloaded.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/io/digest.h"
#include "common/io/posix_filesystem.h"
#include "common/io/slow_operations.h"
#include "common/rpc/status_conversion.h"
#include "worker/session/core/session.h"
#include "worker/session/data_summary_of.h"
#include "worker/session/error_reason.h"
#include "worker/session/evaluations.h"
#include "worker/session/fragment_exchange.h"
#include "worker/session/outer_evaluation.h"
#include "worker/session/plan_conversion.h"
#include "worker/session/plan_watcher.h"
#include "worker/session/progress_meter.h"
#include "worker/session/step_agreement.h"
#include "worker/session/uplink_state.h"

namespace longhaul::session {
namespace {

// Only waits longer than this are logged.
constexpr absl::Duration kWaitToTell = absl::Seconds(1);

StateKeeper::Options KeeperOptions(const RankSession::Options& options, const Logger& log) {
  StateKeeper::Options keeper = options.inner_state;
  keeper.owner.job = options.job;
  keeper.owner.pool = options.pool;
  keeper.life = DigestOf(options.incarnation).low;
  keeper.log = log;
  return keeper;
}

}  // namespace

// Threads: the training thread (Run), the watcher's, the exchange's. All of them pass events to the
// core under mutex_. Foreground actions queue for the training thread; background ones begin at
// once, on the exchange's threads.
class RankSession::Impl {
 public:
  Impl(Options options, Replica* replica)
      : options_(std::move(options)),
        log_(options_.log.With(
            {.pool = options_.pool, .job_id = options_.job, .rank = replica->rank()})),
        replica_(replica),
        exchange_({.transfers = {.coordinator = options_.coordinator,
                                 .job = options_.job,
                                 .pool = options_.pool,
                                 .incarnation = options_.incarnation,
                                 .tls = options_.tls,
                                 .channels = options_.bulk_channels,
                                 .push_bytes_per_second = options_.push_bytes_per_second,
                                 .log = log_,
                                 .on_damaged_pull = options_.observer.on_damaged_pull},
                   .noise_seed = options_.noise_seed,
                   .device_codec = options_.device_codec,
                   .team = options_.team,
                   .log = log_},
                  {.on_event = [this](const Connection& connection,
                                      const Event& event) { PostFrom(connection, event); },
                   .on_fault =
                       [this](const absl::Status& status) {
                         absl::MutexLock lock(&mutex_);
                         Fail(Outcome::Origin::kContribution, status);
                       }}),
        evaluations_(*replica, exchange_.fragments(), *clock_, options_.evaluation_steps_max,
                     options_.observer),
        keeper_(KeeperOptions(options_, log_), replica, clock_.get(), files_.get()) {
    if (!options_.inner_state.folder.empty()) operations_.Watch();
    keeper_.KeepBeside(UplinkState(exchange_.fragments(), [this] { return HeldVersions(); }));
  }

  ~Impl() {
    watcher_.reset();
    // Stops the transfers, for which exchange_ then waits.
    OnDisconnected(absl::OkStatus());
  }

  Outcome Run();
  void Drain();
  void Stop(const std::string& reason) { Post(Ended{reason}); }

 private:
  // --- events in, actions out
  void Post(const Event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void Dispatch(const Action& action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Action> NextForeground() ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitForeground() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(Outcome::Origin origin, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- the stream
  std::unique_ptr<PlanWatcher> MakeWatcher();
  void OnPlanEvent(const v1::PlanEvent& event);
  absl::Status OnPlan(const v1::Plan& plan);
  PoolIdentity self() const { return {options_.pool, options_.incarnation}; }
  bool HasFragment(int fragment) const {
    return fragment >= 0 && fragment < static_cast<int>(exchange_.fragments().size());
  }
  void OnDisconnected(const absl::Status& why);

  // --- background
  using Connection = FragmentExchange::Connection;
  void PostFrom(const Connection& connection, const Event& event) ABSL_LOCKS_EXCLUDED(mutex_);
  // What the core asked for could not be begun: Run ends.
  void CheckBegun(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- foreground
  Outcome Faulted() ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Outcome> EndOf(const Action& action);
  void Skip(const Action& action);
  absl::Status Perform(const Action& action);
  absl::Status DoSeed(const SeedPush& action);
  absl::Status DoAgree(const AgreeOnVersions& action);
  absl::Status DoStep(const RunStep& action);
  bool StopsWithPeers(const Action& action, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DoPush(const Push& action);
  absl::Status PushFragment(const Push& action) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DoAgreeOnMerge(const AgreeOnMerge& action);
  absl::Status DoMerge(const Merge& action);
  absl::Status DoEvaluate(const Evaluate& action);
  void ReportProgress();
  std::vector<int64_t> HeldVersions() ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t StartStep() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const Logger log_;
  Replica* const replica_;
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();

  // Set by the first plan, before any action refers to them; constant afterwards.
  int64_t steps_ = 0;
  bool quorum_ = false;

  absl::Mutex mutex_;
  Session core_ ABSL_GUARDED_BY(mutex_);
  std::deque<Action> foreground_ ABSL_GUARDED_BY(mutex_);
  Connection connection_ ABSL_GUARDED_BY(mutex_);
  // Not OK: Run ends with kFailed.
  absl::Status fault_ ABSL_GUARDED_BY(mutex_);
  Outcome::Origin fault_origin_ ABSL_GUARDED_BY(mutex_) = Outcome::Origin::kTraining;
  bool drain_asked_ ABSL_GUARDED_BY(mutex_) = false;

  // Its threads post events, so it is declared after, and destroyed before, the members that these
  // use.
  FragmentExchange exchange_;

  // Training thread only.
  ProgressMeter meter_;
  StepAgreement agreement_;
  Evaluations evaluations_;
  // Names, in the log, an operation of the disk that does not return.
  SlowOperations operations_{SlowOperations::Options{
      .tell = [log = log_](const std::string& line) { log.Warning(line); }}};
  const std::unique_ptr<FileSystem> posix_ = MakePosixFileSystem();
  const std::unique_ptr<FileSystem> files_ = MakeWatchedFileSystem(posix_.get(), &operations_);
  StateKeeper keeper_;
  // Another rank has stopped: all foreground actions are skipped, except the one that ends Run.
  bool peers_stopped_ = false;
  // That was in the middle of a step, so the inner state is of none and cannot be saved. A merge
  // that was cut short leaves it as the last step did.
  bool step_cut_ = false;

  // The connection was lost. Of the watcher's thread.
  bool lost_ = false;
  std::unique_ptr<PlanWatcher> watcher_;
};

// --- events in, actions out

void RankSession::Impl::Post(const Event& event) {
  absl::MutexLock lock(&mutex_);
  for (const Action& action : core_.Step(event, clock_->Now())) Dispatch(action);
}

void RankSession::Impl::Dispatch(const Action& action) {
  std::visit(
      Overloaded{
          [&](const PullWhole& a) { CheckBegun(exchange_.PullWhole(connection_, a.fragment)); },
          [&](const Pull& a) { CheckBegun(exchange_.Pull(connection_, a.fragment, a.version)); },
          [&](const PushAgain& a) {
            CheckBegun(exchange_.Push(connection_, {a.fragment, a.version, core_.step()}));
          },
          // AwaitForeground tells it, if the wait takes long.
          [](const Wait&) {},
          [&](const auto& a) { foreground_.push_back(a); },
      },
      action);
}

std::optional<Action> RankSession::Impl::NextForeground() {
  absl::MutexLock lock(&mutex_);
  if (foreground_.empty() && fault_.ok()) AwaitForeground();
  if (!fault_.ok()) return std::nullopt;
  Action action = std::move(foreground_.front());
  foreground_.pop_front();
  return action;
}

// Waits for the next foreground action. Tells on_wait and the log what it waits for.
void RankSession::Impl::AwaitForeground() {
  const absl::Time asked = clock_->Now();
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !foreground_.empty() || !fault_.ok();
  };
  if (options_.observer.on_wait) options_.observer.on_wait(core_.WaitsFor());
  if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), kWaitToTell)) {
    const std::string what = core_.WaitsFor();
    log_.Info(absl::StrFormat("waiting since inner step %d: %s", core_.step(), what));
    mutex_.Await(absl::Condition(&ready));
    log_.Info(absl::StrFormat(
        "waited %s: %s",
        absl::FormatDuration(absl::Trunc(clock_->Now() - asked, absl::Milliseconds(100))), what));
  }
  if (options_.observer.on_wait) options_.observer.on_wait("");
  meter_.Waited(clock_->Now() - asked);
}

void RankSession::Impl::Fail(Outcome::Origin origin, const absl::Status& status) {
  if (!fault_.ok()) return;
  fault_ = status;
  fault_origin_ = origin;
}

void RankSession::Impl::Drain() {
  absl::MutexLock lock(&mutex_);
  drain_asked_ = true;
  for (const Action& action : core_.Step(session::Drain{}, clock_->Now())) Dispatch(action);
}

std::unique_ptr<PlanWatcher> RankSession::Impl::MakeWatcher() {
  return std::make_unique<PlanWatcher>(
      PlanWatcher::Options{
          .coordinator = options_.coordinator,
          .job = options_.job,
          .pool = options_.pool,
          .incarnation = options_.incarnation,
          .rank = replica_->rank(),
          .ranks = replica_->ranks(),
          .data = DataSummaryOf(replica_->InnerStatePhase(), options_.data_warnings,
                                replica_->DescribeFeatures()),
          .tls = options_.tls},
      PlanWatcher::Handler{
          .on_event = [this](const v1::PlanEvent& event) { OnPlanEvent(event); },
          .on_disconnected =
              [this](const absl::Status& status) {
                // The coordinator ends the stream without an error when the job has ended.
                if (!status.ok()) {
                  log_.Warning(
                      absl::StrCat("connection lost (", status.message(), "); reconnecting"));
                  lost_ = true;
                }
                OnDisconnected(status);
              },
          .on_refused =
              [this](const absl::Status& status) {
                if (ReasonOf(status) == "JOB_ENDED") keeper_.Forget();
                Post(PlanRefused{status, ReasonOf(status)});
              },
      });
}

Outcome RankSession::Impl::Run() {
  watcher_ = MakeWatcher();
  for (;;) {
    const std::optional<Action> action = NextForeground();
    if (!action) return Faulted();
    if (const std::optional<Outcome> end = EndOf(*action)) return *end;
    if (const auto* draining = std::get_if<Draining>(&*action)) {
      meter_.Drains(draining->last_step);
      ReportProgress();
      if (!step_cut_) keeper_.SaveAlone(draining->last_step);
      continue;
    }
    if (peers_stopped_) {
      Skip(*action);
      continue;
    }
    if (const absl::Status status = Perform(*action);
        !status.ok() && !StopsWithPeers(*action, status)) {
      return {.kind = Outcome::Kind::kFailed,
              .origin = Outcome::Origin::kTraining,
              .status = status,
              .reason = absl::StrFormat("at inner step %d", meter_.step())};
    }
  }
}

// After NextForeground found a fault of the background.
Outcome RankSession::Impl::Faulted() {
  absl::MutexLock lock(&mutex_);
  return {.kind = Outcome::Kind::kFailed,
          .origin = fault_origin_,
          .status = fault_,
          .reason = fault_origin_ == Outcome::Origin::kPlan
                        ? "while it read what the coordinator sent"
                        : "while it coded a contribution"};
}

// Empty: it is not the last action.
std::optional<Outcome> RankSession::Impl::EndOf(const Action& action) {
  if (const auto* finish = std::get_if<Finish>(&action)) {
    ReportProgress();
    if (finish->done == Extent::kAll) keeper_.Forget();
    return Outcome{
        .kind = Outcome::Kind::kFinished, .done = finish->done, .reason = finish->reason};
  }
  const auto* restart = std::get_if<Restart>(&action);
  if (restart == nullptr) return std::nullopt;
  return Outcome{.kind = Outcome::Kind::kRestart, .reason = restart->reason};
}

// No snapshot can be taken any more, so a push will not come.
void RankSession::Impl::Skip(const Action& action) {
  const auto* push = std::get_if<Push>(&action);
  if (push == nullptr) return;
  Post(PushRefused{push->fragment, push->version, absl::CancelledError("asked to stop"), "",
                   std::nullopt});
}

// Whether a collective failed because the pool drains and another rank has ended before this one.
// That rank may be on another node, and only that node was asked to stop.
bool RankSession::Impl::StopsWithPeers(const Action& action, const absl::Status& status) {
  if (!IsPeerFault(status)) return false;
  if (!absl::IsCancelled(status)) {
    absl::MutexLock lock(&mutex_);
    if (!drain_asked_) return false;
  }
  log_.Info(absl::StrCat("stops with another rank of the pool: ", status.message()));
  peers_stopped_ = true;
  step_cut_ = std::holds_alternative<RunStep>(action);
  Post(session::Drain{.stopped = true});
  return true;
}

// --- the stream

void RankSession::Impl::OnPlanEvent(const v1::PlanEvent& event) {
  absl::Status status;
  switch (event.event_case()) {
    case v1::PlanEvent::kPlan:
      if (std::exchange(lost_, false)) log_.Info("connected again");
      status = OnPlan(event.plan());
      break;
    case v1::PlanEvent::kSeed:
      Post(SeedRequested{});
      break;
    case v1::PlanEvent::kCall:
      if (!HasFragment(event.call().fragment())) {
        status = absl::InvalidArgumentError("a call of an unknown fragment");
      } else {
        Post(RoundCalled{event.call().fragment(), event.call().version()});
      }
      break;
    case v1::PlanEvent::kEnded:
      if (!absl::StartsWith(event.ended().reason(), "QUARANTINED")) keeper_.Forget();
      Post(Ended{event.ended().reason()});
      break;
    case v1::PlanEvent::kCommit:
      if (auto commit = CommitFromProto(event.commit(), self()); !commit.ok()) {
        status = commit.status();
      } else if (!HasFragment(event.commit().fragment())) {
        status = absl::InvalidArgumentError("a commit of an unknown fragment");
      } else {
        Post(CommitPublished{event.commit().fragment(), *commit});
      }
      break;
    default:
      // An event of a newer coordinator.
      break;
  }
  if (status.ok()) return;
  absl::MutexLock lock(&mutex_);
  Fail(Outcome::Origin::kPlan, status);
}

absl::Status RankSession::Impl::OnPlan(const v1::Plan& plan) {
  LH_ASSIGN_OR_RETURN(Plan core_plan, PlanFromProto(plan, self()));
  if (exchange_.fragments().empty()) {
    steps_ = core_plan.steps;
    quorum_ = core_plan.quorum;
  }
  LH_RETURN_IF_ERROR(exchange_.TakePlan(plan, *replica_));
  Post(PlanReceived{std::move(core_plan)});
  return absl::OkStatus();
}

void RankSession::Impl::OnDisconnected(const absl::Status& why) {
  std::stop_source old;
  {
    absl::MutexLock lock(&mutex_);
    old = connection_.stop;
    connection_ = {.number = connection_.number + 1};
    for (const Action& action : core_.Step(Disconnected{}, clock_->Now())) Dispatch(action);
  }
  if (WasSilent(why)) exchange_.Redial();
  // Without the lock, since it runs callbacks that cancel calls.
  old.request_stop();
}

// --- background

void RankSession::Impl::PostFrom(const Connection& connection, const Event& event) {
  absl::MutexLock lock(&mutex_);
  if (connection.number != connection_.number) return;
  for (const Action& action : core_.Step(event, clock_->Now())) Dispatch(action);
}

void RankSession::Impl::CheckBegun(const absl::Status& status) {
  if (!status.ok()) Fail(Outcome::Origin::kPlan, status);
}

// --- foreground

absl::Status RankSession::Impl::Perform(const Action& action) {
  return std::visit(
      Overloaded{
          [&](const SeedPush& a) { return DoSeed(a); },
          [&](const AgreeOnVersions& a) { return DoAgree(a); },
          [&](const RunStep& a) { return DoStep(a); },
          [&](const Push& a) { return DoPush(a); },
          [&](const AgreeOnMerge& a) { return DoAgreeOnMerge(a); },
          [&](const Merge& a) { return DoMerge(a); },
          [&](const Evaluate& a) { return DoEvaluate(a); },
          [](const auto&) { return absl::InternalError("not an action of the training thread"); },
      },
      action);
}

absl::Status RankSession::Impl::DoSeed(const SeedPush& action) {
  for (int fragment : action.fragments)
    LH_RETURN_IF_ERROR(PushFragment({fragment, 0, RoundKind::kSeed}));
  return absl::OkStatus();
}

absl::Status RankSession::Impl::DoAgree(const AgreeOnVersions& action) {
  LH_ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> versions,
                      replica_->AllGather(action.versions));
  bool agreed = true;
  for (const auto& of_rank : versions) agreed = agreed && of_rank == action.versions;
  // All ranks see the same answer, so the collectives inside match.
  if (agreed) {
    for (const auto& fragment : exchange_.fragments())
      LH_RETURN_IF_ERROR(fragment->Install(*replica_));
    LH_RETURN_IF_ERROR(PublishAll(*replica_));
    if (action.again) {
      log_.Info("restarts from the outer parameters: other pools are further");
    } else {
      LH_RETURN_IF_ERROR(keeper_.Resume(StartStep()));
    }
  }
  Post(VersionsAgreed{std::move(versions)});
  return absl::OkStatus();
}

absl::Status RankSession::Impl::DoStep(const RunStep& action) {
  if (!meter_.training()) meter_.Begin(clock_->Now());
  const absl::Time begin = clock_->Now();
  LH_ASSIGN_OR_RETURN(StepStats stats, Observed(options_.observer, action.step,
                                                [&] { return replica_->Step(action.step); }));
  if (action.settle) {
    const absl::Time since = clock_->Now();
    LH_ASSIGN_OR_RETURN(const InPoolTraffic received, replica_->Settle());
    stats.received += received;
    stats.compute_seconds += absl::ToDoubleSeconds(clock_->Now() - since);
  }
  if (stats.skipped && replica_->rank() == 0) {
    log_.Warning(absl::StrCat("step ", action.step, " skipped: its gradient is not finite (loss ",
                              stats.loss, ")"));
  }
  meter_.Stepped(action.step, stats, evaluations_.beside());
  ReportProgress();
  StepAgreement::Values own;
  {
    absl::MutexLock lock(&mutex_);
    own = {.drain = drain_asked_, .called = core_.called_step()};
  }
  const double seconds = absl::ToDoubleSeconds(clock_->Now() - begin);
  LH_RETURN_IF_ERROR(evaluations_.AfterStep(action.step, action.step < steps_));
  LH_ASSIGN_OR_RETURN(const StepAgreement::Values agreed,
                      agreement_.AfterStep(*replica_, action.step, seconds, own, quorum_));
  // No step follows the last one.
  if (action.step < steps_) LH_RETURN_IF_ERROR(keeper_.AfterStep(action.step, agreed.drain));
  Post(StepDone{action.step, agreed.drain, agreed.called});
  return absl::OkStatus();
}

absl::Status RankSession::Impl::DoPush(const Push& action) {
  const absl::Time begin = clock_->Now();
  LH_RETURN_IF_ERROR(PushFragment(action));
  meter_.Synced(clock_->Now() - begin);
  return absl::OkStatus();
}

absl::Status RankSession::Impl::PushFragment(const Push& action) {
  LH_RETURN_IF_ERROR(exchange_.TakeSnapshot(*replica_, action.fragment, action.version, action.kind,
                                            action.weight));
  absl::MutexLock lock(&mutex_);
  CheckBegun(exchange_.Push(connection_, {action.fragment, action.version, core_.step()}));
  return absl::OkStatus();
}

absl::Status RankSession::Impl::DoAgreeOnMerge(const AgreeOnMerge& action) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::vector<int64_t>> ranks,
                      replica_->AllGather({action.here ? 1 : 0}));
  bool here = true;
  for (const std::vector<int64_t>& rank : ranks) here = here && rank[0] != 0;
  Post(MergeAgreed{here});
  return absl::OkStatus();
}

absl::Status RankSession::Impl::DoMerge(const Merge& action) {
  const absl::Time begin = clock_->Now();
  OuterFragment& outer = *exchange_.fragments()[action.fragment];
  if (action.earlier) outer.ForgetFeedback();
  LH_RETURN_IF_ERROR(outer.Merge(*replica_, action.alpha, action.contributed));
  LH_RETURN_IF_ERROR(replica_->Publish(outer.map().units()));
  // A round does not wait for a rank that owns nothing of its fragment, and Publish need not,
  // either. Without this, the others could bring about the next version before that rank has merged
  // this one, at the last step.
  LH_RETURN_IF_ERROR(replica_->AllGather({action.version}).status());
  meter_.Synced(clock_->Now() - begin);
  if (options_.observer.on_merge) {
    options_.observer.on_merge({action.fragment, action.version, meter_.step(), outer.outer()});
  }
  Post(Merged{action.fragment});
  return absl::OkStatus();
}

// The last evaluation comes after the last merges. No rank gets past a merge before all ranks have
// made it (DoMerge), so each of them knows that the pool has merged.
absl::Status RankSession::Impl::DoEvaluate(const Evaluate& action) {
  if (action.final) {
    meter_.MergedAll();
    ReportProgress();
  }
  return evaluations_.Do(action, action.step < steps_);
}

void RankSession::Impl::ReportProgress() {
  if (!meter_.training()) return;
  Progress progress = meter_.Read(clock_->Now(), evaluations_);
  progress.inner_state = keeper_.report();
  const FragmentExchange::UplinkQuality uplink = exchange_.uplink_quality();
  progress.uplink_nmse = uplink.nmse;
  progress.error_feedback_norm = uplink.feedback_norm;
  if (options_.observer.on_progress) options_.observer.on_progress(progress);
}

std::vector<int64_t> RankSession::Impl::HeldVersions() {
  absl::MutexLock lock(&mutex_);
  std::vector<int64_t> versions;
  for (int i = 0; i < static_cast<int>(exchange_.fragments().size()); ++i)
    versions.push_back(core_.version(i));
  return versions;
}

int64_t RankSession::Impl::StartStep() {
  absl::MutexLock lock(&mutex_);
  return core_.step();
}

RankSession::RankSession(Options options, Replica* replica)
    : impl_(std::make_unique<Impl>(std::move(options), replica)) {}
RankSession::~RankSession() = default;
void RankSession::Drain() { impl_->Drain(); }
Outcome RankSession::Run() { return impl_->Run(); }
void RankSession::Stop(const std::string& reason) { impl_->Stop(reason); }

}  // namespace longhaul::session
