#include "worker/agent/agent.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/host_port.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/http/openness.h"
#include "common/io/digest.h"
#include "common/io/posix_filesystem.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/link_probe.h"
#include "google/protobuf/util/json_util.h"
#include "worker/agent/log_stream.h"
#include "worker/cores/processor_list.h"
#include "worker/rank/rendezvous_token.h"
#include "worker/rendezvous/rendezvous_server.h"
#include "worker/state/state_folders.h"

namespace longhaul {
namespace {

// The time between two looks at what the ranks do.
constexpr absl::Duration kTick = absl::Milliseconds(250);
// How many events may wait. Further reports of ranks are dropped, since newer ones follow.
constexpr size_t kEventsMax = 10'000;
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);
constexpr char kNcclInterfaces[] = "NCCL_SOCKET_IFNAME";

// Whether the Logger of a rank wrote the line. Libraries write other lines to standard error.
bool IsLogLine(absl::string_view line) {
  if (absl::StartsWith(line, R"({"time":")")) return true;
  constexpr absl::string_view kTime = "00:00:00.000 ";
  if (line.size() < kTime.size()) return false;
  return std::equal(kTime.begin(), kTime.end(), line.begin(), [](char expected, char c) {
    return expected == '0' ? absl::ascii_isdigit(c) : expected == c;
  });
}

Logger OfJob(const Logger& log, const v1::Assignment& assignment) {
  return log.With({.job = assignment.spec().name(), .job_id = assignment.job_id()});
}

v1::JoinRequest MakeJoinRequest(const Agent::Options& options, const std::string& token,
                                const RendezvousServer* rendezvous) {
  v1::JoinRequest request;
  request.set_pool(options.pool);
  request.set_ranks(options.ranks);
  request.set_device(options.device);
  request.set_version(LONGHAUL_VERSION);
  request.set_host(options.host);
  for (const std::string& capability : options.capabilities) request.add_capabilities(capability);
  if (options.nodes == 1) return request;
  request.set_nodes(options.nodes);
  if (options.node.has_value()) request.set_node(*options.node);
  request.set_address(options.in_pool_address);
  request.set_rendezvous_port(rendezvous->port());
  request.set_rendezvous_token(token);
  return request;
}

// Within one machine the token is enough, so the rendezvous needs no TLS there.
absl::StatusOr<std::unique_ptr<RendezvousServer>> ServeRendezvous(const Agent::Options& options,
                                                                  const std::string& token) {
  if (options.nodes == 1 && options.ranks == 1) return nullptr;
  if (options.nodes == 1) return RendezvousServer::Start({.token = token});
  return RendezvousServer::Start(
      {.address = HostPortText(options.in_pool_address, 0),
       .tls = options.tls,
       .allow_plaintext_beyond_localhost = options.allow_plaintext_beyond_localhost,
       .token = token});
}

// The number of a start of a group's ranks. All nodes compute the same one. A group begins a job
// once, so a number is never used again.
uint64_t GenerationOf(const PoolSupervisor::Work& work) {
  return DigestOf(absl::StrCat(work.incarnation, "/", work.job)).low;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(Options options) {
  std::string token = RandomHex();
  LH_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> rendezvous,
                      ServeRendezvous(options, token));
  auto agent =
      absl::WrapUnique(new Agent(std::move(options), std::move(token), std::move(rendezvous)));
  LH_RETURN_IF_ERROR(agent->ServeHttp());
  agent->Join();
  return agent;
}

absl::Status Agent::ServeHttp() {
  if (options_.http_listen.empty()) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const std::string open,
                      CheckHttpOpenness({.listen = options_.http_listen,
                                         .tokens = !options_.tokens_file.empty(),
                                         .insecure = options_.insecure,
                                         .what = "metrics"}));
  if (!open.empty()) options_.log.Warning(open);
  LH_ASSIGN_OR_RETURN(const HttpServer::Options http,
                      HttpServer::OptionsFrom(options_.http_listen));
  Pages pages;
  metrics_.AddPages(pages);
  if (!options_.tokens_file.empty()) {
    absl::StatusOr<std::unique_ptr<Tokens>> tokens =
        Tokens::Open("--tokens", options_.tokens_file, options_.log);
    if (!tokens.ok()) return absl::InvalidArgumentError(tokens.status().message());
    tokens_ = *std::move(tokens);
    // A user with any role may look at the pages.
    pages.SetGate([this](absl::string_view authorization) {
      return tokens_->Authenticate(authorization).status();
    });
  }
  LH_ASSIGN_OR_RETURN(http_, HttpServer::Start(http, std::move(pages)));
  options_.log.Info(absl::StrCat("metrics at http://", http_->address(), "/metrics"));
  return absl::OkStatus();
}

Agent::Agent(Options options, std::string token, std::unique_ptr<RendezvousServer> rendezvous)
    : options_(std::move(options)),
      rendezvous_token_(std::move(token)),
      rendezvous_(std::move(rendezvous)),
      bulk_channels_(options_.bulk_channels),
      supervisor_({.ranks = options_.ranks,
                   .progress = options_.progress,
                   .drain = options_.drain,
                   .nodes = options_.nodes},
                  absl::Now()),
      fs_(MakePosixFileSystem()),
      tracks_(options_.track_dir, options_.pool, options_.log) {
  place_.set_ranks(options_.ranks);
  place_.add_ranks_of_node(options_.ranks);
}

void Agent::Join() {
  MembershipClient::Options membership{
      .log = options_.log,
      .coordinator = options_.coordinator,
      .tls = options_.tls,
      .tls_files = options_.tls_files,
      .join = MakeJoinRequest(options_, rendezvous_token_, rendezvous_.get()),
      .heartbeat = options_.heartbeat};
  if (!options_.state_dir.empty()) {
    membership.kept_jobs = [this] {
      return KeptJobs(*fs_, PoolStateFolder(options_.state_dir, options_.pool));
    };
    membership.on_ended_jobs = [this](const auto& jobs) { Post(JobsEnded{jobs}); };
  }
  membership_ = std::make_unique<MembershipClient>(
      std::move(membership),
      [this](const MembershipClient::Standing& standing) { Post(Assigned{standing}); },
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

std::function<void(absl::string_view)> Agent::KeepLine(int rank) const {
  if (options_.log_ring == nullptr) return nullptr;
  return
      [ring = options_.log_ring, log = options_.log.With({.rank = rank})](absl::string_view line) {
        if (!IsLogLine(line)) return log.Warning(absl::StrCat("the rank's libraries say: ", line));
        WriteToStandardError(absl::StrCat(line, "\n"));
        ring->Add(line);
      };
}

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

absl::Status Agent::Run() {
  for (absl::Time tick = absl::Now() + kTick; !done_;) {
    if (const std::optional<Event> event = Next()) {
      std::visit([this](const auto& e) { On(e); }, *event);
    }
    // A tick comes after the events that came meanwhile, since this process may have been stopped
    // for a while.
    const absl::Time now = absl::Now();
    if (now < tick) continue;
    tick = now + kTick;
    Perform(supervisor_.Tick(now));
    RemoveEndedJobs();
  }
  Do(PoolSupervisor::KillRanks{});
  // Leaves the coordinator.
  membership_.reset();
  if (refused_.ok()) options_.log.Info("ended");
  return refused_;
}

void Agent::On(const Assigned& event) {
  const MembershipClient::Standing& standing = event.standing;
  metrics_.CoordinatorAnswered(absl::Now(), standing.lease);
  incarnation_ = standing.incarnation;
  assignment_ = incarnation_.empty() ? v1::Assignment() : standing.assignment;
  if (standing.node.nodes() > 1 && log_server_ != nullptr)
    log_server_->SetNode(standing.node.node());
  if (standing.node.ranks() > 0) place_ = standing.node;
  Perform(supervisor_.Assigned(
      {standing.incarnation, assignment_.job_id(), assignment_.ordinal(), place_.first_rank()},
      absl::Now()));
}

void Agent::On(const Reported& event) {
  if (event.group != group_) return;
  // They report about a job that is not this pool's any more.
  if (supervisor_.state() == PoolSupervisor::State::kLeaving) return;
  if (const auto* status = std::get_if<RankStatus>(&event.report)) {
    metrics_.RankReported(place_.first_rank() + event.rank, ranks_[event.rank]->pid(), *status);
    Perform(supervisor_.Reported(event.rank, *status, absl::Now()));
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
    // job. So are the last ones of a pool that drains.
    const bool last = progress.inner_step() == assignment_.spec().train().steps() ||
                      supervisor_.state() == PoolSupervisor::State::kDraining;
    membership_->SetProgress(of, progress, last);
    metrics_.Progressed(assignment_.spec().name(), progress);
    tracks_.Progressed(assignment_, absl::StrCat(group_), progress);
  }
  // Now the coordinator knows for which rounds the other pools need not wait.
  if (report.draining()) membership_->SetDraining(of);
  for (const v1::Evaluation& evaluation : report.evaluations()) {
    membership_->AddEvaluation(of, evaluation);
    tracks_.Evaluated(assignment_, evaluation);
  }
  // Only one report of a group's failure is sent, since the coordinator counts failures.
  if (report.has_failure() && failed_group_ != group_) {
    failed_group_ = group_;
    v1::JobError failure = report.failure();
    failure.set_pool(options_.pool);
    membership_->ReportFailure(of, failure);
    options_.log.Warning(absl::StrCat(
        "this pool cannot do the job now (", v1::FaultClass_Name(failure.fault_class()),
        "): ", failure.message(), "; it stays joined, and waits for its next assignment"));
    Perform(supervisor_.Failed());
  }
}

void Agent::On(const Exited& event) {
  if (event.group != group_) return;
  metrics_.RankExited(event.code);
  tracks_.Close();
  Perform(supervisor_.Exited(event.rank, event.code, absl::Now()));
  if (!supervisor_.completed()) return;
  membership_->SetFinished(Subject());
  OfJob(options_.log, assignment_).Info("its ranks have ended: they have done all steps");
}

void Agent::On(const Refused& event) {
  refused_ = event.status;
  done_ = true;
}

void Agent::On(const DrainAsked&) {
  options_.log.Info("asked to stop");
  Perform(supervisor_.Drain(absl::Now()));
}

void Agent::On(const JobsEnded& event) { ended_jobs_ = event.jobs; }

void Agent::RemoveEndedJobs() {
  // Its ranks remove what they keep themselves.
  if (ended_jobs_.empty() || supervisor_.state() == PoolSupervisor::State::kLeaving) return;
  for (const std::string& job : std::exchange(ended_jobs_, {})) {
    if (job == supervisor_.work().job) {
      ended_jobs_.push_back(job);
      continue;
    }
    const absl::Status removed =
        RemoveKeptJob(*fs_, PoolStateFolder(options_.state_dir, options_.pool), job);
    const Logger log = options_.log.With({.job_id = job});
    if (removed.ok()) {
      log.Info("removed the inner state of this job, which has ended");
    } else if (!absl::IsFailedPrecondition(removed)) {  // Else another node has removed it.
      log.Warning(absl::StrCat("its inner state is not removed: ", removed.message()));
    }
  }
}

void Agent::Perform(const PoolSupervisor::Actions& actions) {
  for (const PoolSupervisor::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void Agent::Do(const PoolSupervisor::StartRanks&) {
  if (options_.log_ring != nullptr) options_.log_ring->SetJob(assignment_.job_id());
  OfJob(options_.log, assignment_)
      .Info(absl::StrCat("starting ", options_.ranks, options_.ranks == 1 ? " rank" : " ranks",
                         options_.nodes > 1 ? absl::StrCat(" of the pool's ", place_.ranks(),
                                                           ", from number ", place_.first_rank())
                                            : ""));
  if (const absl::Status status = StartRanks(); !status.ok()) {
    Perform(supervisor_.StartFailed(status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
  }
}

void Agent::Do(const PoolSupervisor::KillRanks&) {
  ++group_;
  for (const auto& rank : ranks_) rank->Signal(SIGKILL);
  for (const auto& rank : ranks_) rank->Kill();
  ranks_.clear();
  metrics_.RanksEnded();
  tracks_.Close();
}

void Agent::Do(const PoolSupervisor::DrainRanks&) {
  options_.log.Info(
      absl::StrCat("the ranks finish their step and send their contributions, within ",
                   absl::FormatDuration(options_.drain)));
  for (const auto& rank : ranks_) rank->Signal(SIGTERM);
}

void Agent::Do(const PoolSupervisor::Rejoin& action) {
  options_.log.Warning(absl::StrCat(action.reason, "; coming back as a new incarnation in ",
                                    absl::FormatDuration(action.delay)));
  metrics_.Rejoined();
  membership_->Rejoin(action.reason, action.delay);
}

void Agent::Do(const PoolSupervisor::Done& action) {
  if (action.had_work) membership_->SetFarewell("asked to stop", options_.return_within);
  done_ = true;
}

// Done once. The coordinator has just assigned a job, so it answers.
void Agent::ChooseBulkChannels() {
  if (bulk_channels_ > 0) return;
  BulkLink link{.megabits_per_second = options_.link_mbps / place_.ranks()};
  link.send_buffer_bytes = SendBufferBytesMax().value_or(link.send_buffer_bytes);
  const absl::StatusOr<absl::Duration> round_trip = membership_->MeasureRoundTrip(kProbeTimeout);
  if (!round_trip.ok()) {
    bulk_channels_ = kDistantChannelsMin;
    options_.log.Warning(absl::StrCat(
        bulk_channels_, " bulk channels for each rank: the round trip ", "is not known: ",
        round_trip.status().ToString(absl::StatusToStringMode::kWithNoExtraData)));
    return;
  }
  link.round_trip = *round_trip;
  bulk_channels_ = BulkChannelCount(link);
  if (bulk_channels_ > 1) push_bytes_per_second_ = PacedBytesPerSecond(link);
  options_.log.Info(
      absl::StrFormat("%d bulk channel(s) for each rank: %g Mbit/s a rank, a round trip of %s, %d "
                      "KiB of send buffer",
                      bulk_channels_, link.megabits_per_second,
                      absl::FormatDuration(absl::Trunc(link.round_trip, absl::Microseconds(10))),
                      link.send_buffer_bytes >> 10));
}

absl::Status Agent::StartRanks() {
  // Ends what is left of the last group.
  Do(PoolSupervisor::KillRanks{});
  ChooseBulkChannels();
  LH_ASSIGN_OR_RETURN(const RankProcess::Options meeting, PrepareMeeting());
  for (int rank = 0; rank < options_.ranks; ++rank) {
    LH_ASSIGN_OR_RETURN(
        std::unique_ptr<RankProcess> process,
        RankProcess::Start(RankOptions(rank, meeting),
                           {.on_report =
                                [this, group = group_, rank](const RankReport& report) {
                                  Post(Reported{group, rank, report});
                                },
                            .on_exit =
                                [this, group = group_, rank](int code) {
                                  Post(Exited{group, rank, code});
                                },
                            .on_log = KeepLine(place_.first_rank() + rank)}));
    ranks_.push_back(std::move(process));
  }
  metrics_.RanksStarted(options_.ranks);
  return absl::OkStatus();
}

absl::StatusOr<RankProcess::Options> Agent::PrepareMeeting() {
  if (rendezvous_ == nullptr) return RankProcess::Options();
  const bool alone = options_.nodes == 1;
  const uint64_t generation = alone ? group_ : GenerationOf(supervisor_.work());
  if (alone || place_.node() == 0)
    LH_RETURN_IF_ERROR(rendezvous_->StartGeneration(generation, place_.ranks()));
  RankProcess::Options options;
  options.arguments = {"--rendezvous", alone ? rendezvous_->address() : place_.rendezvous(),
                       "--generation", absl::StrCat(generation)};
  if (!alone) {
    options.arguments.insert(options.arguments.end(),
                             {"--in-pool-address", options_.in_pool_address});
  }
  if (!options_.in_pool_name.empty()) {
    options.arguments.insert(options.arguments.end(), {"--in-pool-name", options_.in_pool_name});
  }
  options.environment = {absl::StrCat(kRendezvousTokenVariable, "=",
                                      alone ? rendezvous_token_ : place_.rendezvous_token())};
  // NCCL knows only interfaces. '=' means the whole name.
  if (!alone && std::getenv(kNcclInterfaces) == nullptr) {
    options.environment.push_back(absl::StrCat(kNcclInterfaces, "==", options_.in_pool_interface));
  }
  return options;
}

RankProcess::Options Agent::RankOptions(int local_rank, RankProcess::Options meeting) const {
  const auto rank = static_cast<size_t>(local_rank);
  const RankCores cores = rank < options_.cores.size() ? options_.cores[rank] : RankCores();
  RankProcess::Options options = std::move(meeting);
  options.program = options_.rank_program;
  options.log = options_.log;
  options.arguments.insert(options.arguments.end(),
                           {"--coordinator",
                            options_.coordinator,
                            "--pool",
                            options_.pool,
                            "--incarnation",
                            incarnation_,
                            "--agent",
                            absl::StrCat(getpid()),
                            "--rank",
                            absl::StrCat(place_.first_rank() + local_rank),
                            "--local-rank",
                            absl::StrCat(local_rank),
                            "--ranks",
                            absl::StrCat(place_.ranks()),
                            "--ranks-of-node",
                            absl::StrJoin(place_.ranks_of_node(), ","),
                            "--threads",
                            absl::StrCat(cores.threads),
                            "--bulk-channels",
                            absl::StrCat(bulk_channels_),
                            "--push-bytes-per-second",
                            absl::StrCat(push_bytes_per_second_),
                            "--data-dir",
                            options_.data_dir,
                            "--work-dir",
                            options_.work_dir,
                            "--drain-seconds",
                            absl::StrCat(absl::ToDoubleSeconds(options_.drain)),
                            "--progress-timeout",
                            absl::StrCat(absl::ToDoubleSeconds(options_.progress.at_least)),
                            "--progress-factor",
                            absl::StrCat(options_.progress.factor),
                            "--log-format",
                            options_.log_format,
                            "--log-level",
                            options_.log_level});
  if (!cores.processors.empty()) {
    options.arguments.insert(options.arguments.end(), {"--cpus", ProcessorList(cores.processors)});
  }
  if (!options_.trace.empty()) {
    options.arguments.insert(
        options.arguments.end(),
        {"--trace", absl::StrCat(options_.trace, ".", place_.first_rank() + local_rank)});
  }
  if (!options_.update_rates.empty()) {
    options.arguments.insert(options.arguments.end(), {"--update-rates", options_.update_rates});
  }
  if (!options_.state_dir.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--state-dir", options_.state_dir, "--state-every",
                              absl::StrCat(absl::ToDoubleSeconds(options_.state_every))});
  }
  if (!options_.tls_files.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--tls-ca", options_.tls_files.ca, "--tls-certificate",
                              options_.tls_files.certificate, "--tls-key", options_.tls_files.key});
  }
  // OpenMP threads that spin make several ranks on few cores ten times slower.
  options.environment.push_back("OMP_WAIT_POLICY=passive");
  options.environment.push_back(absl::StrCat("OMP_NUM_THREADS=", cores.threads));
  LH_CHECK(google::protobuf::util::MessageToJsonString(assignment_, &options.input).ok(),
           "an assignment has a JSON form");
  return options;
}

}  // namespace longhaul
