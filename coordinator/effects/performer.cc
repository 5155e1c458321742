#include "coordinator/effects/performer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/effects/health_facts.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/store/fatal.h"
#include "longhaul/v1/pool.pb.h"

namespace longhaul::coordinator {
namespace {

// A coordinator that is killed loses so much of RunTime.
constexpr absl::Duration kRunTimeEach = absl::Minutes(1);
// The time between two tries to write the ballast.
constexpr absl::Duration kBallastEach = absl::Minutes(1);
// So many jobs that are old enough to be deleted are looked at: jobs that have not begun may need
// some of them.
constexpr int kExpiredMax = 100;

EvaluationRecord RecordOf(const StoreEvaluation& record) {
  const Evaluation& e = record.evaluation;
  return {.job_id = record.job,
          .step = e.step,
          .version = e.version,
          .loss = e.loss,
          .tokens = e.tokens,
          .final = e.final && !e.of_pool,
          .pool = e.of_pool ? record.pool : "",
          .metrics = e.metrics,
          .site = record.of_site ? record.pool : ""};
}

JobRecord Changed(JobRecord job, const StoreJobState& change, absl::Time now) {
  job.state = change.state;
  if (change.state == JobState::kSeeding) job.started = now;
  if (IsEnded(change.state)) job.ended = now;
  return job;
}

PauseRecord Changed(PauseRecord pause, const StorePause& change, absl::Time now) {
  if (change.stage == PauseStage::kNone) return {.job_id = change.job};
  if (change.stage == PauseStage::kPausing)
    pause = {.job_id = change.job, .at = now, .by = change.by, .reason = change.reason};
  pause.stage = change.stage;
  return pause;
}

}  // namespace

Performer::Performer(PerformerOptions options, PerformerParts parts, RecoveredState recovered)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      core_(options_.core, recovered.core, parts_.now()),
      jobs_by_state_(std::move(recovered.jobs_by_state)),
      started_(now()),
      run_time_at_start_(recovered.run_time),
      run_time_saved_(started_) {
  for (std::shared_ptr<LiveJob>& job : recovered.jobs) {
    if (job->fragments) parts_.fragments->Add(job->fragments);
    job->events.Add(MakeEvent(v1::COORDINATOR_STARTED, v1::INFO,
                              "was found again after a restart of the coordinator"),
                    parts_.now());
    if (job->quarantine.has_value()) {
      job->events.Add(EventOf(EndJob{job->id(), JobState::kQuarantined, job->quarantine}),
                      parts_.now());
    }
    parts_.metrics->Show(job->name(), job->progress.EvaluationLoss());
    jobs_[job->id()] = std::move(job);
  }
}

void Performer::Start() {
  Step(Tick{});
  for (const std::shared_ptr<LiveJob>& job : All()) ObserveHealth(*job);
}

void Performer::Step(const Event& event) {
  Step(event, [](const std::optional<Answer>&) {});
}

void Performer::Do(const Command& command, OnAnswer on_answer) {
  std::visit([&](const auto& event) { Step(event, std::move(on_answer)); }, command);
}

void Performer::Step(const Event& event, OnAnswer on_answer) {
  if (halted_) return on_answer(HaltedRefusal());
  const bool frees = std::holds_alternative<CancelJob>(event) ||
                     std::holds_alternative<PauseJob>(event) ||
                     std::holds_alternative<DeleteJob>(event);
  const bool waits = full() && !(frees && GiveUpBallast());
  if (waits &&
      (std::holds_alternative<JoinPool>(event) || std::holds_alternative<CancelJob>(event) ||
       std::holds_alternative<PauseJob>(event) || std::holds_alternative<ResumeJob>(event) ||
       std::holds_alternative<AskCheckpoint>(event) || std::holds_alternative<SubmitJob>(event) ||
       std::holds_alternative<DeleteJob>(event) || std::holds_alternative<JobsExpired>(event))) {
    return on_answer(DiskFullRefusal("nothing new can be stored", absl::Seconds(5)));
  }
  if (const auto* heartbeat = std::get_if<Heartbeat>(&event);
      waits && heartbeat != nullptr && !heartbeat->evaluations.empty()) {
    // Evaluations are not queued while the disk is full, since a pool repeats them until they are
    // taken.
    Heartbeat rest = *heartbeat;
    rest.evaluations.clear();
    Step(rest, [](const std::optional<Answer>&) {});
    return on_answer(DiskFullRefusal("evaluations cannot be stored", absl::Seconds(1)));
  }
  Decision decision;
  {
    absl::MutexLock lock(&mutex_);
    decision = core_.Step(event, parts_.now());
  }
  if (const auto* pushed = std::get_if<ContributionComplete>(&event);
      pushed != nullptr && !decision.answer.has_value()) {
    if (const std::shared_ptr<LiveJob> job = Find(pushed->id.job))
      job->history.Pushed(pushed->id.round, pushed->id.pool, now());
  }
  // The lease was extended in memory. But the answer depends on earlier decisions, which are not
  // durable yet.
  if (waits && decision.records.empty() && decision.notices.empty() && decision.works.empty()) {
    return on_answer(DiskFullRefusal("decisions cannot be stored", absl::Seconds(1)));
  }
  backlog_.push_back({std::move(decision), std::move(on_answer)});
  Drain();
  // This command found the disk full.
  if (frees && full() && GiveUpBallast()) Drain();
  if (const auto* heartbeat = std::get_if<Heartbeat>(&event);
      heartbeat != nullptr && !heartbeat->evaluations.empty() && !halted_) {
    // The job may end before the next second.
    if (const std::shared_ptr<LiveJob> job = Find(heartbeat->job)) ObserveHealth(*job);
  }
}

// A Step may be called while another takes effect (by a publisher). Then it waits for its turn.
void Performer::Drain() {
  if (std::exchange(draining_, true)) return;
  while (!backlog_.empty() && !halted_ && MakeDurable(backlog_.front().decision)) {
    Pending next = std::move(backlog_.front());
    backlog_.pop_front();
    next.on_answer(next.decision.answer);
    for (const Notice& notice : next.decision.notices)
      std::visit([this](const auto& n) { Tell(n); }, notice);
    for (const Work& work : next.decision.works)
      std::visit([this](const auto& w) { Begin(w); }, work);
  }
  draining_ = false;
  if (!halted_) return;
  for (Pending& pending : std::exchange(backlog_, {})) pending.on_answer(HaltedRefusal());
}

// Returns false if the decision must wait for disk space, or if the performer halted.
bool Performer::MakeDurable(const Decision& decision) {
  if (decision.records.empty()) return true;
  const std::vector<MetaRecord> records = RecordsOf(decision);
  const absl::Status written = parts_.records->Commit(records);
  if (absl::IsResourceExhausted(written) && going_down_) {
    parts_.log->Warning(absl::StrCat("decisions that waited for disk space are dropped: ",
                                     std::string(written.message())));
    halted_ = true;
    return false;
  }
  if (absl::IsResourceExhausted(written)) {
    absl::MutexLock lock(&mutex_);
    if (!full_.has_value()) {
      parts_.log->Warning(
          absl::StrCat("decisions wait for disk space: ", std::string(written.message())));
      full_ = Waiting{.what = absl::StrCat("the coordinator's disk: ", written.message()),
                      .since = now(),
                      .until = absl::InfiniteFuture()};
    }
    return false;
  }
  if (!written.ok()) {
    // The core has moved on. So what it decided must become durable, or nothing more may take
    // effect.
    Note(MarkFatal(
        absl::Status(written.code(), absl::StrCat("storing decisions: ", written.message()))));
    return false;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (full_.has_value()) parts_.log->Info("disk space is available again");
    full_.reset();
  }
  NoteStates(records);
  for (const Record& record : decision.records) TakeOver(record);
  return true;
}

void Performer::NoteStates(const std::vector<MetaRecord>& records) {
  for (const MetaRecord& record : records) {
    if (const auto* update = std::get_if<JobUpdate>(&record); update != nullptr) {
      if (!IsEnded(update->state)) continue;
      parts_.fragments->NoteState(
          update->job_id, {.state = update->state, .at = update->ended, .report = update->status});
    } else if (const auto* pause = std::get_if<PauseRecord>(&record); pause != nullptr) {
      JobStateNote note;
      if (IsPaused(pause->stage))
        note = {JobState::kPaused, false, pause->at, pause->by, pause->reason, pause->report};
      parts_.fragments->NoteState(pause->job_id, std::move(note));
    } else if (const auto* deleted = std::get_if<DeletedJob>(&record); deleted != nullptr) {
      JobStateNote note{.deleted = true, .at = deleted->at};
      if (const std::shared_ptr<LiveJob> job = Find(deleted->job_id))
        note.state = job->record.state;
      parts_.fragments->NoteState(deleted->job_id, std::move(note));
    }
  }
}

std::vector<MetaRecord> Performer::RecordsOf(const Decision& decision) {
  std::vector<MetaRecord> records;
  std::map<std::string, PauseRecord> pauses;
  for (const Record& record : decision.records) {
    if (const auto* state = std::get_if<StoreJobState>(&record)) {
      const LiveJob& job = *Find(state->job);
      const JobRecord changed = Changed(job.record, *state, now());
      records.push_back(JobUpdate{job.id(), changed.state,
                                  parts_.publisher->StatusOf(job, changed, state->fault),
                                  changed.started, changed.ended, run_time()});
    } else if (const auto* submitted = std::get_if<StoreNewJob>(&record)) {
      const LiveJob& job = *Find(submitted->job);
      JobRecord stored = job.record;
      stored.status = parts_.publisher->StatusOf(job, stored, std::nullopt);
      records.push_back(NewJob{std::move(stored)});
    } else if (const auto* place = std::get_if<StorePlace>(&record)) {
      const RecoveredPlace& p = place->place;
      records.push_back(ParticipantRecord{place->job, p.pool, p.incarnation, p.ordinal,
                                          p.start_step, p.gone, p.missed, p.return_until});
    } else if (const auto* evaluation = std::get_if<StoreEvaluation>(&record)) {
      records.push_back(RecordOf(*evaluation));
    } else if (const auto* request = std::get_if<StoreCheckpointRequest>(&record)) {
      records.push_back(CheckpointRequestRecord{request->job, request->cycle});
    } else if (const auto* pause = std::get_if<StorePause>(&record)) {
      const LiveJob& job = *Find(pause->job);
      // A job that has not begun is paused in one decision.
      PauseRecord& changed = pauses.try_emplace(job.id(), job.pause).first->second;
      changed = Changed(changed, *pause, now());
      if (pause->stage == PauseStage::kPaused)
        changed.report = parts_.publisher->StatusOf(job, job.record, std::nullopt);
      records.push_back(changed);
    } else if (const auto* deleted = std::get_if<StoreDeleted>(&record)) {
      records.push_back(DeletedJob{deleted->job, now()});
    } else if (const auto* removed = std::get_if<StoreRemoved>(&record)) {
      records.push_back(RemovedJob{removed->job});
    } else {
      records.push_back(CleanedUpJob{std::get<StoreCleanedUp>(record).job});
    }
  }
  return records;
}

// Shows a record that is durable now.
void Performer::TakeOver(const Record& record) {
  if (const auto* deleted = std::get_if<StoreDeleted>(&record)) return TakeOver(*deleted);
  const std::string& id =
      std::visit([](const auto& r) -> const std::string& { return r.job; }, record);
  if (std::holds_alternative<StoreCheckpointRequest>(record) ||
      std::holds_alternative<StoreRemoved>(record) ||
      std::holds_alternative<StoreCleanedUp>(record))
    return;
  LiveJob& job = *Find(id);
  if (const auto* submitted = std::get_if<StoreNewJob>(&record)) {
    TakeOver(job, *submitted);
  } else if (const auto* state = std::get_if<StoreJobState>(&record)) {
    TakeOver(job, *state);
  } else if (const auto* place = std::get_if<StorePlace>(&record)) {
    TakeOver(job, *place);
  } else if (const auto* pause = std::get_if<StorePause>(&record)) {
    TakeOver(job, *pause);
  } else {
    TakeOver(job, std::get<StoreEvaluation>(record));
  }
  parts_.publisher->JobChanged(job);
}

void Performer::TakeOver(const StoreDeleted& deleted) {
  --jobs_by_state_[deleted.state];
  const std::shared_ptr<LiveJob> job = Find(deleted.job);
  if (job != nullptr) {
    Hide(*job);
    jobs_.erase(deleted.job);
  }
  parts_.metrics->deleted_jobs.With({{"by", deleted.expired ? "age" : "user"}}).Increment();
  if (deleted.expired && options_.on_expired) options_.on_expired(deleted.job);
  parts_.log->With({.job = job == nullptr ? "" : job->name(), .job_id = deleted.job})
      .Info(deleted.expired ? absl::StrCat("was deleted after it was kept for ",
                                           absl::FormatDuration(options_.ended_job_keep))
                            : "is deleted");
}

void Performer::TakeOver(LiveJob& job, const StoreNewJob&) {
  ++jobs_by_state_[job.record.state];
  job.events.Add(MakeEvent(v1::STATE_CHANGED, v1::INFO, "was submitted"), now());
  for (const std::string& warning : job.resolved->beginning_warnings)
    job.events.Add(MakeEvent(v1::SUBMIT_WARNING, v1::WARNING, warning), now());
}

void Performer::TakeOver(LiveJob& job, const StoreJobState& state) {
  --jobs_by_state_[job.record.state];
  ++jobs_by_state_[state.state];
  job.record = Changed(job.record, state, now());
  if (IsEnded(state.state)) {
    job.quarantine.reset();
    job.pause = {};
  }
  job.events.Add(EventOf(state), now());
  LogOf(job).Info(absl::StrCat("is ", JobStateName(state.state)));
  if (state.state == JobState::kSeeding) WarnOfPools(job);
}

void Performer::ObserveHealth(LiveJob& job) {
  if (!job.resolved.has_value() || IsEnded(job.record.state)) return;
  const std::optional<JobView> view = View(job.id());
  // Its end is not stored yet.
  if (!view.has_value()) return;
  const std::vector<v1::JobEvent> events = job.health.Observe(HealthFactsOf(job, *view), now());
  for (const v1::JobEvent& event : events) {
    Tell(job, event, event.kind() == v1::FINDING_BEGAN ? LogLevel::kWarning : LogLevel::kInfo);
  }
  if (!events.empty()) parts_.publisher->JobChanged(job);
}

// Which pools take part was not known at submit.
void Performer::WarnOfPools(LiveJob& job) {
  const std::optional<JobView> view = View(job.id());
  if (!view.has_value()) return;
  std::vector<std::string> names;
  for (const ParticipantView& participant : view->participants)
    if (participant.live) names.push_back(participant.pool);
  std::string warning = WarningOfPoolNames(job.resolved->spec, names);
  if (warning.empty()) return;
  Tell(job, MakeEvent(v1::SUBMIT_WARNING, v1::WARNING, std::move(warning)), LogLevel::kWarning);
}

Logger Performer::LogOf(const LiveJob& job, const std::string& pool) const {
  return parts_.log->With({.job = job.name(), .pool = pool, .job_id = job.id()});
}

void Performer::Tell(LiveJob& job, v1::JobEvent event, LogLevel level) {
  LogOf(job, event.pool()).Log(level, event.message());
  job.events.Add(std::move(event), now());
}

void Performer::TakeOver(LiveJob& job, const StorePlace& place) { Tell(job, EventOf(place)); }

void Performer::TakeOver(LiveJob& job, const StorePause& pause) {
  job.pause = Changed(job.pause, pause, now());
  if (pause.stage != PauseStage::kNone) Tell(job, EventOf(pause));
}

void Performer::TakeOver(LiveJob& job, const StoreEvaluation& stored) {
  const EvaluationRecord evaluation = RecordOf(stored);
  job.progress.AddEvaluation(evaluation);
  if (parts_.tracks != nullptr) parts_.tracks->Evaluated(job, evaluation, now());
  LogOf(job, evaluation.site.empty() ? evaluation.pool : evaluation.site)
      .Info(absl::StrCat("evaluation at step ", evaluation.step, ": loss ", evaluation.loss));
  if (evaluation.pool.empty()) parts_.metrics->Show(job.name(), job.progress.EvaluationLoss());
}

std::shared_ptr<LiveJob> Performer::Find(absl::string_view id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<LiveJob>> Performer::All() const {
  std::vector<std::shared_ptr<LiveJob>> jobs;
  for (const auto& [id, job] : jobs_) jobs.push_back(job);
  return jobs;
}

std::optional<JobView> Performer::View(const std::string& job) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::optional<JobView> view = core_.job(job);
  if (view.has_value() && full_.has_value()) view->waiting = full_;
  return view;
}

std::optional<ParticipantView> Performer::Place(const std::string& job,
                                                const std::string& pool) const {
  absl::ReaderMutexLock lock(&mutex_);
  return core_.place(job, pool);
}

std::vector<PoolView> Performer::Pools(const std::string& after, size_t count) const {
  absl::ReaderMutexLock lock(&mutex_);
  return core_.pools(after, count);
}

absl::Status Performer::Judge(const ContributionId& contribution) const {
  if (halted_) return ToStatus(HaltedRefusal());
  absl::ReaderMutexLock lock(&mutex_);
  const std::optional<Refuse> refusal = core_.Judge(contribution);
  return refusal.has_value() ? ToStatus(*refusal) : absl::OkStatus();
}

absl::Status Performer::CheckPlace(const std::string& job, const std::string& pool,
                                   const std::string& incarnation) const {
  absl::ReaderMutexLock lock(&mutex_);
  const std::optional<Refuse> refusal = core_.CheckReader(job, pool, incarnation);
  return refusal.has_value() ? ToStatus(*refusal) : absl::OkStatus();
}

std::set<int64_t> Performer::InitialSteps(const std::string& job) const {
  absl::ReaderMutexLock lock(&mutex_);
  return core_.InitialSteps(job);
}

std::set<std::string> Performer::InitialUploads() const {
  absl::ReaderMutexLock lock(&mutex_);
  return core_.InitialUploads();
}

bool Performer::full() const {
  absl::ReaderMutexLock lock(&mutex_);
  return full_.has_value();
}

absl::Status Performer::health() const {
  if (halted_) return absl::UnavailableError("halted");
  absl::ReaderMutexLock lock(&mutex_);
  return full_.has_value() ? absl::ResourceExhaustedError(full_->what) : absl::OkStatus();
}

absl::Time Performer::KeptUntil(const JobRecord& ended) const {
  if (options_.ended_job_keep == absl::InfiniteDuration()) return absl::InfiniteFuture();
  const absl::Duration age = run_time() - ended.ended_run_time.value_or(run_time_at_start_);
  return now() - age + options_.ended_job_keep;
}

void Performer::Note(const absl::Status& status) {
  if (!IsFatal(status) || halted_.exchange(true)) return;
  parts_.log->Error(absl::StrCat("halted: ", std::string(status.message()),
                                 "; the next start recovers what was acknowledged"));
  options_.on_fatal(status);
}

void Performer::GoDown() {
  going_down_ = true;
  Drain();
}

void Performer::PassTime() {
  // If another thread halted the performer, Drain answers the events that wait.
  Drain();
  Step(Tick{});
  if (halted_ || now() - last_second_ < absl::Seconds(1)) return;
  last_second_ = now();
  for (const std::shared_ptr<LiveJob>& job : All()) ObserveHealth(*job);
  SaveCounters();
  if (parts_.ballast != nullptr && !full() && now() - ballast_filled_ >= kBallastEach) {
    ballast_filled_ = now();
    // If there is no room yet, a later try finds it.
    (void)parts_.ballast->Fill();
  }
  DeleteExpired();
  ShowGauges();
}

bool Performer::GiveUpBallast() {
  if (parts_.ballast == nullptr || !parts_.ballast->GiveUp()) return false;
  parts_.log->Warning(
      "the disk is full: the reserved space is released for a command that frees space");
  ballast_filled_ = now();
  Drain();
  return !full();
}

void Performer::DeleteExpired() {
  if (options_.ended_job_keep == absl::InfiniteDuration() || full()) return;
  const absl::StatusOr<std::vector<JobKey>> expired =
      parts_.meta->ListEndedBefore(run_time() - options_.ended_job_keep, kExpiredMax);
  if (!expired.ok()) return Note(expired.status());
  JobsExpired event;
  for (const JobKey& job : *expired) event.jobs.push_back({job.id, job.state});
  if (!event.jobs.empty()) Step(event);
}

void Performer::Hide(const LiveJob& job) {
  // First, so that streams that end later make no series any more.
  if (job.fragments) job.fragments->Hide();
  parts_.metrics->RemoveJob(job.name());
  parts_.fragments->parts().metrics->RemoveJob(job.name());
}

// What a full disk does not take is tried again after a second.
void Performer::SaveCounters() {
  std::vector<MetaRecord> records, events;
  std::vector<std::pair<LiveJob*, std::string>> saved;
  std::vector<std::pair<LiveJob*, int64_t>> told;
  for (const auto& [id, job] : jobs_) {
    for (EventRecord& event : job->events.Unsaved(id)) events.push_back(std::move(event));
    told.emplace_back(job.get(), job->events.newest());
    if (!job->fragments) continue;
    store::v1::JobCounters counters;
    *counters.mutable_wire_bytes() = job->wire_bytes();
    job->progress.Save(&counters);
    std::string bytes = counters.SerializeAsString();
    if (bytes == job->counters) continue;
    records.push_back(JobCounters{id, bytes});
    saved.emplace_back(job.get(), std::move(bytes));
  }
  records.insert(records.end(), events.begin(), events.end());
  const bool time_due = now() - run_time_saved_ >= kRunTimeEach;
  if (time_due) records.push_back(RunTime{run_time()});
  if (records.empty()) return;
  const absl::Status written = parts_.records->Commit(records);
  Note(written);
  if (!written.ok()) return;
  if (time_due) run_time_saved_ = now();
  for (auto& [job, bytes] : saved) job->counters = std::move(bytes);
  for (const auto& [job, newest] : told) job->events.Saved(newest);
}

void Performer::ShowGauges() {
  PoolCounts pools;
  {
    absl::ReaderMutexLock lock(&mutex_);
    pools = core_.CountPools();
  }
  parts_.metrics->live_pools.With().Set(pools.live);
  for (int number = v1::IDLE; v1::PoolState_IsValid(number); ++number) {
    const std::string state = absl::AsciiStrToLower(v1::PoolState_Name(number));
    parts_.metrics->pools.With({{"state", state}})
        .Set(pools.by_state[static_cast<PoolState>(number)]);
  }
  std::map<JobState, int64_t> states = jobs_by_state_;
  for (const auto& [id, job] : jobs_) {
    --states[job->record.state];
    ++states[job->state()];
  }
  constexpr auto kLast = static_cast<int>(JobState::kPaused);
  for (auto number = static_cast<int>(JobState::kPending); number <= kLast; ++number) {
    const auto state = static_cast<JobState>(number);
    parts_.metrics->jobs.With({{"state", JobStateName(state)}})
        .Set(static_cast<double>(states[state]));
  }
}

}  // namespace longhaul::coordinator
