#include "coordinator/service/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/check.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/plan_message.h"
#include "coordinator/service/refusal.h"
#include "coordinator/store/fatal.h"

namespace longhaul::coordinator {
namespace {

constexpr int kTicksPerSecond = 5;
// Bounded by what was submitted: a round of each fragment of each job; a snapshot and some
// checkpoints of each job.
constexpr int kQueueMax = 1 << 20;

Refuse Halted() {
  return {.status = absl::UnavailableError("the coordinator is going down"), .reason = "HALTED"};
}

}  // namespace

Runtime::Runtime(RuntimeOptions options, const RuntimeParts& parts, RecoveredState recovered)
    : options_(std::move(options)),
      parts_(parts),
      core_(options_.core, recovered.core, parts.clock->Now()),
      core_now_(parts.clock->Now()),
      jobs_by_state_(std::move(recovered.jobs_by_state)),
      apply_(std::make_unique<Executor>(
          Executor::Options{.threads = options_.apply_threads, .queue_max = kQueueMax})),
      background_(
          std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax})),
      bulk_(std::make_unique<Executor>(
          Executor::Options{.threads = options_.bulk_threads, .queue_max = 1024})),
      owner_({}, parts.clock, [this] { Tick(); }) {
  owner_.PostAlways([this, jobs = std::move(recovered.jobs)] {
    for (const auto& job : jobs) jobs_.Add(job);
    Step(coordinator::Tick{});  // What the restart interrupted goes on: rounds that are due, the
                                // end of a job.
  });
}

Runtime::~Runtime() { Stop(); }

absl::Status Runtime::Overloaded() {
  return WithRetryDelay(absl::ResourceExhaustedError("too many calls wait for the coordinator"),
                        absl::Seconds(1));
}

std::string Runtime::JobDir(const std::string& id) const { return JobDirOf(options_.data_dir, id); }

absl::Status Runtime::Judge(const ContributionBegins& event) {
  if (halted_) return ToStatus(Halted());
  absl::MutexLock lock(&core_mutex_);
  // At the time that the core knows already: this call changes nothing, so that it needs no place
  // in the queue.
  const std::vector<Action> actions = core_.Step(event, core_now_);
  if (actions.empty()) return absl::OkStatus();
  LH_CHECK(actions.size() == 1, "a question to the core has one answer");
  return ToStatus(std::get<Refuse>(actions.front()));
}

absl::Status Runtime::Complete(const ContributionComplete& event) {
  absl::Status result;
  absl::Notification done;
  const bool posted = Post([&] {
    Step(event, [&](const Answer& answer) {
      if (const Refuse* refusal = std::get_if<Refuse>(&answer)) result = ToStatus(*refusal);
    });
    done.Notify();
  });
  if (!posted) return Overloaded();
  done.WaitForNotification();  // The owner thread runs every task that it took.
  return result;
}

void Runtime::Note(const absl::Status& status) {
  if (!IsFatal(status) || halted_.exchange(true)) return;
  parts_.log->Error(absl::StrCat("halted: ", status.message(),
                                 "; the next start recovers what was acknowledged"));
  options_.on_fatal(status);
}

void Runtime::Step(const Event& event, Answering answer) {
  if (halted_) return answer(Halted());
  std::vector<Action> actions;
  {
    absl::MutexLock lock(&core_mutex_);
    core_now_ = std::max(core_now_, now());
    actions = core_.Step(event, core_now_);
  }
  bool answered = false;
  Perform(std::move(actions), 0, [&](const Answer& given) {
    answered = true;
    answer(given);
  });
  if (answered) return;
  answer(halted_ ? Answer(Halted()) : Answer());
}

void Runtime::Step(const Event& event) {
  Step(event, [](const Answer&) {});
}

void Runtime::Admit(std::shared_ptr<LiveJob> job) {
  const SubmitJob submitted{job->id(), JobOptionsOf(job->resolved())};
  ++jobs_by_state_[job->record.state];
  jobs_.Add(std::move(job));
  Step(submitted);
}

v1::Job Runtime::Report(const JobRecord& record) const {
  const std::shared_ptr<LiveJob> job = jobs_.Find(record.id);
  if (!job || job->record.ended != absl::InfinitePast()) return ReportEnded(record);
  absl::MutexLock lock(&core_mutex_);
  const std::optional<JobView> view = core_.job(record.id);
  return view.has_value() ? ReportLive(*job, *view, core_now_) : ReportEnded(record);
}

std::vector<PoolView> Runtime::pools() const {
  absl::MutexLock lock(&core_mutex_);
  return core_.pools();
}

v1::PlanEvent Runtime::PlanFor(const AdmitRank& rank) const {
  const std::shared_ptr<LiveJob> job = jobs_.Find(rank.job);
  LH_CHECK(job != nullptr, "the core admits ranks to live jobs");
  absl::MutexLock lock(&core_mutex_);
  return MakePlan(*job, *core_.job(rank.job), rank);
}

void Runtime::Tick() {
  if (halted_) return;
  Step(coordinator::Tick{});
  watchers_.Flush([this](const std::string& id) { return Report(jobs_.Find(id)->record); });
  if (++ticks_ % kTicksPerSecond != 0) return;
  plan_streams_.Sweep();
  for (OwnerThread::Task& retry : std::exchange(retries_, {})) std::move(retry)();
  for (const std::shared_ptr<LiveJob>& job : jobs_.All()) {
    if (job->forget_at > now()) continue;
    parts_.metrics->RemoveJob(job->name(), job->fragments());
    jobs_.Remove(job->id());
  }
  ShowGauges();
}

void Runtime::ShowGauges() {
  int live = 0, participating = 0;
  for (const PoolView& pool : pools()) {
    if (pool.lease_end <= now()) continue;
    ++live;
    participating += pool.ready;
  }
  parts_.metrics->pools.With({{"state", "live"}}).Set(live);
  parts_.metrics->pools.With({{"state", "participating"}}).Set(participating);
  for (int state = v1::PENDING; state < v1::JobState_ARRAYSIZE; ++state) {
    parts_.metrics->jobs.With({{"state", v1::JobState_Name(state)}}).Set(jobs_by_state_[state]);
  }
  for (const std::shared_ptr<LiveJob>& job : jobs_.All()) {
    const v1::Job report = Report(job->record);
    const MetricLabels labels = {{"job", job->name()}};
    parts_.metrics->job_inner_step.With(labels).Set(static_cast<double>(report.inner_step()));
    parts_.metrics->job_tokens.With(labels).Set(static_cast<double>(report.tokens()));
    parts_.metrics->job_utilization.With(labels).Set(report.utilization());
  }
  parts_.metrics->bulk_streams.With().Set(admission_.streams());
}

void Runtime::RetryLater(absl::string_view what, const absl::Status& status,
                         OwnerThread::Task task) {
  parts_.log->Warning(absl::StrCat(what, " is tried again: ", status.message()));
  retries_.push_back(std::move(task));
}

void Runtime::EndStreams(const absl::Status& status) {
  absl::Notification done;
  const bool posted = Post([&] {
    plan_streams_.EndAll(status);
    watchers_.EndAll(status);
    done.Notify();
  });
  if (posted) done.WaitForNotification();
}

void Runtime::Stop() {
  owner_.PostAlways([this] {
    for (const std::shared_ptr<LiveJob>& job : jobs_.All()) {
      if (!halted_ && job->forget_at == absl::InfiniteFuture()) SaveCounters(*job);
    }
  });
  owner_.Stop();
  bulk_.reset();
  apply_.reset();
  background_.reset();
}

}  // namespace longhaul::coordinator
