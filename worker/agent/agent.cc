#include "worker/agent/agent.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/http/openness.h"
#include "common/io/posix_filesystem.h"
#include "common/logging/flag_error.h"
#include "common/rpc/link_probe.h"
#include "worker/state/state_folders.h"

namespace longhaul {
namespace {

// The time between two looks at what the ranks do.
constexpr absl::Duration kTick = absl::Milliseconds(250);
// How many events may wait. Further reports of ranks are dropped, since newer ones follow.
constexpr size_t kEventsMax = 10'000;
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);
// How long a heartbeat waits for the list of what is kept in --state-dir.
constexpr absl::Duration kListPatience = absl::Seconds(1);

Logger OfJob(const Logger& log, const v1::Assignment& assignment) {
  return log.With({.job = assignment.spec().name(), .job_id = assignment.job_id()});
}

v1::JoinRequest MakeJoinRequest(const AgentOptions& options, const NodeRanks& ranks) {
  v1::JoinRequest request;
  request.set_pool(options.pool);
  request.set_ranks(options.ranks);
  request.set_device(options.device);
  request.set_version(LONGHAUL_VERSION);
  request.set_host(options.host);
  for (const std::string& capability : options.capabilities) request.add_capabilities(capability);
  request.add_capabilities(kStopsWhenAsked);
  if (options.figures.has_value()) *request.mutable_figures() = *options.figures;
  if (options.nodes == 1) return request;
  request.set_nodes(options.nodes);
  if (options.node.has_value()) request.set_node(*options.node);
  ranks.DescribeMeeting(request);
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options) {
  auto agent = absl::WrapUnique(new Agent(std::move(options)));
  LH_RETURN_IF_ERROR(agent->PrepareRanks());
  agent->OpenRecord();
  LH_RETURN_IF_ERROR(agent->ServeHttp());
  agent->Join();
  return agent;
}

absl::Status Agent::PrepareRanks() {
  NodeRanks::Handler handler{
      .on_report =
          [this](uint64_t group, int rank, const RankReport& report) {
            Post(Reported{group, rank, report});
          },
      .on_exit =
          [this](uint64_t group, int rank, int code) {
            Post(Exited{group, rank, code});
          },
      .round_trip = [this] { return membership_->MeasureRoundTrip(kProbeTimeout); }};
  LH_ASSIGN_OR_RETURN(ranks_, NodeRanks::Create(options_, std::move(handler)));
  return absl::OkStatus();
}

absl::Status Agent::ServeHttp() {
  if (options_.http_listen.empty()) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const std::string open,
                      CheckHttpOpenness({.listen = options_.http_listen,
                                         .tokens = !options_.tokens_file.empty(),
                                         .tls = options_.http_tls,
                                         .insecure = options_.insecure,
                                         .what = "metrics"}));
  if (!open.empty()) options_.log.Warning(open);
  LH_ASSIGN_OR_RETURN(HttpServer::Options http, HttpServer::OptionsFrom(options_.http_listen));
  if (options_.http_tls) {
    if (options_.tls == nullptr) {
      return absl::InvalidArgumentError(
          "--http-tls needs --tls-ca, --tls-certificate and --tls-key: it uses that certificate");
    }
    http.identity = [tls = options_.tls] {
      const TlsContents contents = tls->files().contents();
      return HttpIdentity{contents.certificate, contents.key};
    };
  }
  Pages pages;
  metrics_.AddPages(pages);
  if (options_.tls) metrics_.WatchTls(options_.tls);
  if (!options_.tokens_file.empty()) {
    LH_ASSIGN_OR_RETURN(tokens_, Tokens::Open("--tokens", options_.tokens_file, options_.log));
    metrics_.WatchTokens(tokens_.get());
    // A user with any role may look at the pages.
    pages.SetGate([this](absl::string_view authorization) {
      return tokens_->Authenticate(authorization).status();
    });
  }
  LH_ASSIGN_OR_RETURN(http_, OfFlag("--http-listen", HttpServer::Start(http, std::move(pages))));
  options_.log.Info(absl::StrCat("metrics at http", options_.http_tls ? "s" : "", "://",
                                 http_->address(), "/metrics"));
  return absl::OkStatus();
}

Agent::Agent(AgentOptions options)
    : options_(std::move(options)),
      supervisor_({.ranks = options_.ranks,
                   .progress = options_.progress,
                   .drain = options_.drain,
                   .nodes = options_.nodes,
                   .exit_when_idle = options_.exit_when_idle},
                  SteadyTime()),
      operations_(options_.operations != nullptr
                      ? options_.operations
                      : std::make_shared<SlowOperations>(SlowOperations::Options())),
      posix_(MakePosixFileSystem()),
      fs_(MakeWatchedFileSystem(posix_.get(), operations_.get())),
      tracks_(options_.track_dir, options_.pool, fs_.get(), options_.log) {
  metrics_.WatchDisk([this] { return Stands(kSlowOperation); },
                     [this] { return operations_->Longest(); });
  place_.set_ranks(options_.ranks);
  place_.add_ranks_of_node(options_.ranks);
}

// Without a record the next agent waits for the end of this one's lease.
void Agent::OpenRecord() {
  const absl::StatusOr<std::string> boot = BootId();
  if (!boot.ok() || options_.work_dir.empty()) return;
  const std::string folder = options_.work_dir + "/agents";
  const SlowOperations::Operation operation(operations_.get(), "open", folder);
  absl::StatusOr<IncarnationRecord> record =
      IncarnationRecord::Open(folder, options_.pool, options_.coordinator, *boot);
  if (record.ok()) {
    record_ = *std::move(record);
  } else {
    options_.log.Warning(
        absl::StrCat("an agent that replaces this one after a crash will wait for ",
                     "the end of its lease: ", record.status().message()));
  }
}

void Agent::Join() {
  MembershipClient::Options membership{.log = options_.log,
                                       .coordinator = options_.coordinator,
                                       .tls = options_.tls,
                                       .tls_files = options_.tls_files,
                                       .join = MakeJoinRequest(options_, *ranks_),
                                       .heartbeat = options_.heartbeat,
                                       .stalled_for = [this] { return stalled_for(); }};
  if (record_.has_value()) {
    membership.before = record_->before();
    membership.on_incarnation = [this](const std::string& incarnation) {
      const SlowOperations::Operation operation(operations_.get(), "write", options_.work_dir);
      const absl::Status written = record_->Write(incarnation);
      if (!written.ok()) options_.log.Warning(written.message());
    };
  }
  if (!options_.state_dir.empty()) {
    membership.kept_jobs = [this] {
      struct Kept {
        absl::Notification known;
        std::vector<std::string> jobs;
      };
      const auto kept = std::make_shared<Kept>();
      const bool posted = chores_.Submit([this, kept] {
        const std::string folder = PoolStateFolder(options_.state_dir, options_.pool);
        kept->jobs = KeptJobs(*fs_, folder);
        Post(JobsUnwritten{unwritten_.Look(*fs_, folder, kept->jobs, SteadyTime())});
        kept->known.Notify();
      });
      // A disk that hangs must not cost the lease. They are asked about next time.
      if (!posted || !kept->known.WaitForNotificationWithTimeout(kListPatience))
        return std::vector<std::string>();
      return kept->jobs;
    };
    membership.on_ended_jobs = [this](const auto& jobs) { Post(JobsEnded{jobs}); };
  }
  membership_ = std::make_unique<MembershipClient>(
      std::move(membership),
      [this](const MembershipClient::State& state) { Post(Assigned{state}); },
      [this](const absl::Status& status) { Post(Refused{status}); });
  if (options_.log_ring == nullptr) return;
  log_server_ =
      std::make_unique<LogServer>(LogServer::Options{.coordinator = options_.coordinator,
                                                     .tls = options_.tls,
                                                     .pool = options_.pool,
                                                     .node = options_.nodes > 1 ? options_.node : 0,
                                                     .ring = options_.log_ring});
}

Agent::~Agent() = default;

void Agent::Post(Event event) {
  absl::MutexLock lock(&mutex_);
  if (events_.size() >= kEventsMax && std::holds_alternative<Reported>(event)) return;
  events_.push_back(std::move(event));
}

std::optional<Agent::Event> Agent::Next() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !events_.empty(); };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), kTick)) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Agent::Drain() { Post(DrainAsked{}); }

absl::Duration Agent::stalled_for() const {
  absl::MutexLock lock(&mutex_);
  return std::max(SteadyTime() - turned_, absl::ZeroDuration());
}

void Agent::Turned(absl::Time turned) {
  absl::MutexLock lock(&mutex_);
  turned_ = turned;
}

std::string Agent::Stands(absl::Duration at_least) const {
  const std::string disk = operations_->Oldest(at_least, [](absl::string_view) { return true; });
  if (const absl::Duration turn = stalled_for(); turn >= at_least) {
    return absl::StrCat("this agent has been inactive for ",
                        absl::FormatDuration(absl::Trunc(turn, absl::Seconds(1))),
                        disk.empty() ? "" : ": ", disk);
  }
  return disk.empty() ? "" : absl::StrCat("a disk of this worker: ", disk);
}

absl::Status Agent::Run() {
  for (absl::Time tick = SteadyTime() + kTick; !done_;) {
    Turned(SteadyTime());
    if (const std::optional<Event> event = Next()) {
      std::visit([this](const auto& e) { On(e); }, *event);
    }
    // A tick comes after the events that came meanwhile, since this process may have been stopped
    // for a while.
    const absl::Time now = SteadyTime();
    if (now < tick) continue;
    tick = now + kTick;
    Perform(supervisor_.Tick(now));
    metrics_.Tick(now);
    RemoveEndedJobs();
  }
  Do(PoolSupervisor::KillRanks{});
  Turned(absl::InfiniteFuture());
  // Leaves the coordinator.
  membership_.reset();
  if (refused_.ok()) options_.log.Info("ended");
  return refused_;
}

void Agent::On(const Assigned& event) {
  const MembershipClient::State& state = event.state;
  metrics_.CoordinatorAnswered(SteadyTime(), state.lease);
  incarnation_ = state.incarnation;
  assignment_ = incarnation_.empty() ? v1::Assignment() : state.assignment;
  if (state.node.nodes() > 1 && log_server_ != nullptr) log_server_->SetNode(state.node.node());
  if (state.node.ranks() > 0) place_ = state.node;
  Perform(supervisor_.Assigned({state.incarnation, assignment_.job_id(), assignment_.ordinal(),
                                place_.first_rank(), assignment_.stop()},
                               SteadyTime()));
}

void Agent::On(const Reported& event) {
  if (event.group != ranks_->group()) return;
  // They report about a job that is not this pool's any more.
  if (supervisor_.state() == PoolSupervisor::State::kLeaving) return;
  if (const auto* status = std::get_if<RankStatus>(&event.report)) {
    metrics_.RankReported(place_.first_rank() + event.rank, ranks_->pid(event.rank), *status);
    Perform(supervisor_.Reported(event.rank, *status, SteadyTime()));
  } else {
    PassOn(std::get<v1::HeartbeatRequest>(event.report));
  }
}

MembershipClient::Subject Agent::Subject() const {
  const PoolSupervisor::Work& work = supervisor_.work();
  return {work.incarnation, work.job, work.ordinal};
}

void Agent::PassOn(const v1::HeartbeatRequest& report) {
  const MembershipClient::Subject of = Subject();
  if (report.has_progress()) {
    v1::PoolProgress progress = report.progress();
    progress.set_pool(options_.pool);
    progress.set_ranks(place_.ranks());
    // Reports of the last step are urgent: its figures must arrive before the final round ends the
    // job. So are the last ones of a pool that drains or stops.
    const bool last = progress.inner_step() == assignment_.spec().train().steps() ||
                      supervisor_.state() == PoolSupervisor::State::kDraining ||
                      supervisor_.state() == PoolSupervisor::State::kStopping;
    membership_->SetProgress(of, progress, last);
    metrics_.Progressed(assignment_.spec().name(), progress, SteadyTime());
    tracks_.Progressed(assignment_, absl::StrCat(ranks_->group()), progress);
  }
  // Now the coordinator knows for which rounds the other pools need not wait.
  if (report.draining()) {
    draining_group_ = ranks_->group();
    if (supervisor_.state() == PoolSupervisor::State::kDraining) {
      membership_->SetDraining(of);
    } else {
      membership_->SetStopping(of);
    }
  }
  if (report.merged()) membership_->SetMerged(of);
  for (const v1::Evaluation& evaluation : report.evaluations()) {
    membership_->AddEvaluation(of, evaluation);
    tracks_.Evaluated(assignment_, evaluation);
  }
  // Only one report of a group's failure is sent, since the coordinator counts failures.
  if (report.has_failure() && failed_group_ != ranks_->group()) {
    failed_group_ = ranks_->group();
    v1::JobError failure = report.failure();
    failure.set_pool(options_.pool);
    membership_->ReportFailure(of, failure);
    options_.log.Warning(absl::StrCat(
        "this pool cannot run the job now (", v1::FaultClass_Name(failure.fault_class()),
        "): ", failure.message(), "; it stays joined and waits for its next assignment"));
    Perform(supervisor_.Failed());
  }
}

void Agent::On(const Exited& event) {
  if (event.group != ranks_->group()) return;
  metrics_.RankExited(event.code);
  tracks_.Close();
  Perform(supervisor_.Exited(event.rank, event.code, SteadyTime()));
  if (!supervisor_.completed()) return;
  membership_->SetFinished(Subject());
  OfJob(options_.log, assignment_).Info("its ranks have ended: all steps are done");
}

void Agent::On(const Refused& event) {
  refused_ = event.status;
  done_ = true;
}

void Agent::On(const DrainAsked&) {
  options_.log.Info("asked to stop");
  Perform(supervisor_.Drain(SteadyTime()));
  // A signal of the terminal may reach the ranks first.
  if (draining_group_ == ranks_->group()) membership_->SetDraining(Subject());
}

void Agent::On(const JobsEnded& event) { ended_jobs_ = event.jobs; }

void Agent::On(const JobsUnwritten& event) {
  // A pool that does nothing may only wait for its job.
  if (supervisor_.work().job.empty()) return;
  for (const std::string& job : event.jobs) {
    if (job != supervisor_.work().job) RemoveState(job, "which was not written for a week");
  }
}

void Agent::RemoveState(const std::string& job, absl::string_view why) {
  // If too many wait for the disk, the next answer of the coordinator names it again.
  (void)chores_.Submit([this, job, why = std::string(why)] {
    const absl::Status removed =
        RemoveKeptJob(*fs_, PoolStateFolder(options_.state_dir, options_.pool), job);
    const Logger log = options_.log.With({.job_id = job});
    if (removed.ok()) {
      log.Info(absl::StrCat("removed the inner state of this job, ", why));
    } else if (!absl::IsFailedPrecondition(removed)) {  // Else another node has removed it.
      log.Warning(absl::StrCat("its inner state is not removed: ", removed.message()));
    }
  });
}

void Agent::RemoveEndedJobs() {
  // Its ranks remove what they keep themselves.
  if (ended_jobs_.empty() || supervisor_.state() == PoolSupervisor::State::kLeaving) return;
  for (const std::string& job : std::exchange(ended_jobs_, {})) {
    if (job == supervisor_.work().job) {
      ended_jobs_.push_back(job);
      continue;
    }
    RemoveState(job, "which has ended");
  }
}

void Agent::Perform(const PoolSupervisor::Actions& actions) {
  for (const PoolSupervisor::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (supervisor_.stopped()) membership_->SetStopped(Subject());
}

void Agent::Do(const PoolSupervisor::StartRanks&) {
  if (options_.log_ring != nullptr) options_.log_ring->SetJob(assignment_.job_id());
  OfJob(options_.log, assignment_)
      .Info(absl::StrCat("starting ", options_.ranks, options_.ranks == 1 ? " rank" : " ranks",
                         options_.nodes > 1 ? absl::StrCat(" of the pool's ", place_.ranks(),
                                                           ", from number ", place_.first_rank())
                                            : ""));
  membership_->ClearStopping();
  const absl::Status status = ranks_->Start({incarnation_, assignment_, place_});
  // What was left of the last group has ended.
  metrics_.RanksEnded();
  tracks_.Close();
  if (status.ok()) return metrics_.RanksStarted(options_.ranks);
  Perform(supervisor_.StartFailed(status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
}

void Agent::Do(const PoolSupervisor::KillRanks& action) {
  if (!action.lost.empty())
    options_.log.Warning(absl::StrCat(action.lost, "; the pool lost its place meanwhile"));
  ranks_->End();
  metrics_.RanksEnded();
  tracks_.Close();
}

void Agent::Do(const PoolSupervisor::DrainRanks&) {
  options_.log.Info(
      absl::StrCat("the ranks finish their step and send their contributions, within ",
                   absl::FormatDuration(options_.drain)));
  ranks_->Signal(SIGTERM);
}

void Agent::Do(const PoolSupervisor::Rejoin& action) {
  options_.log.Warning(
      absl::StrCat(action.reason, "; coming back as a new incarnation",
                   action.delay == absl::ZeroDuration()
                       ? " now"
                       : absl::StrCat(" in ", absl::FormatDuration(action.delay))));
  metrics_.Rejoined();
  membership_->Rejoin(Subject(), action.reason, action.delay);
}

void Agent::Do(const PoolSupervisor::Done& action) {
  if (action.had_work) membership_->SetFarewell("asked to stop", options_.return_within);
  if (action.idle)
    options_.log.Info(absl::StrCat("had no job for ", absl::FormatDuration(options_.exit_when_idle),
                                   " (--exit-when-idle)"));
  done_ = true;
}

}  // namespace longhaul
