#include "worker/agent/agent.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/link_probe.h"
#include "google/protobuf/util/json_util.h"
#include "worker/rank/rendezvous_token.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul {
namespace {

// Between looks at what the ranks do.
constexpr absl::Duration kTick = absl::Milliseconds(250);
// Events that wait; a rank's reports beyond it are dropped, since newer ones follow.
constexpr size_t kEventsMax = 10'000;
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);

v1::JoinRequest MakeJoinRequest(const Agent::Options& options) {
  v1::JoinRequest request;
  request.set_pool(options.pool);
  request.set_ranks(options.ranks);
  request.set_device(options.device);
  request.set_version(LONGHAUL_VERSION);
  request.set_host(options.host);
  for (const std::string& capability : options.capabilities) request.add_capabilities(capability);
  return request;
}

}  // namespace

Agent::Agent(Options options)
    : options_(std::move(options)),
      rendezvous_token_(RandomHex()),
      bulk_channels_(options_.bulk_channels),
      supervisor_({.ranks = options_.ranks, .progress = options_.progress, .drain = options_.drain},
                  absl::Now()) {
  membership_ = std::make_unique<MembershipClient>(
      MembershipClient::Options{.log = options_.log,
                                .coordinator = options_.coordinator,
                                .tls = options_.tls,
                                .join = MakeJoinRequest(options_),
                                .heartbeat = options_.heartbeat},
      [this](const MembershipClient::Standing& standing) { Post(Assigned{standing}); },
      [this](const absl::Status& status) { Post(Refused{status}); });
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

absl::Status Agent::Run() {
  for (absl::Time tick = absl::Now() + kTick; !done_;) {
    if (const std::optional<Event> event = Next()) {
      std::visit([this](const auto& e) { On(e); }, *event);
    }
    // Once what came meanwhile was heard: this process may have been stopped for a while.
    const absl::Time now = absl::Now();
    if (now < tick) continue;
    tick = now + kTick;
    Perform(supervisor_.Tick(now));
  }
  Do(PoolSupervisor::KillRanks{});
  membership_.reset();  // Leaves.
  return refused_;
}

void Agent::On(const Assigned& event) {
  const MembershipClient::Standing& standing = event.standing;
  incarnation_ = standing.incarnation;
  assignment_ = standing.assignment;
  Perform(supervisor_.Assigned({standing.incarnation, assignment_.job_id(), assignment_.ordinal()},
                               absl::Now()));
}

void Agent::On(const Reported& event) {
  if (event.group != group_) return;
  if (const auto* status = std::get_if<RankStatus>(&event.report)) {
    Perform(supervisor_.Reported(event.rank, *status, absl::Now()));
  } else {
    PassOn(std::get<v1::HeartbeatRequest>(event.report));
  }
}

void Agent::PassOn(const v1::HeartbeatRequest& report) {
  if (report.has_progress()) {
    v1::PoolProgress progress = report.progress();
    progress.set_pool(options_.pool);
    progress.set_ranks(options_.ranks);
    // The last step's figures are to be there when the final round ends the job, and those of a
    // pool that drains when it stopped.
    const bool last = progress.inner_step() == assignment_.spec().train().steps() ||
                      supervisor_.state() == PoolSupervisor::State::kDraining;
    membership_->SetProgress(progress, last);
  }
  // Now the coordinator can say for which rounds the others need not wait.
  if (report.draining()) membership_->SetDraining();
  for (const v1::Evaluation& evaluation : report.evaluations())
    membership_->AddEvaluation(evaluation);
  // Of several ranks that say the same, one is enough: the coordinator counts failures.
  if (report.has_failure() && failed_group_ != group_) {
    failed_group_ = group_;
    v1::JobError failure = report.failure();
    failure.set_pool(options_.pool);
    membership_->ReportFailure(failure);
    options_.log.Warning(absl::StrCat(
        "this pool cannot do the job now (", v1::FaultClass_Name(failure.fault_class()),
        "): ", failure.message(), "; it stays, for what the coordinator assigns next"));
    Perform(supervisor_.Failed());
  }
}

void Agent::On(const Exited& event) {
  if (event.group != group_) return;
  Perform(supervisor_.Exited(event.rank, event.code, absl::Now()));
  if (supervisor_.completed()) membership_->SetFinished();
}

void Agent::On(const Refused& event) {
  refused_ = event.status;
  done_ = true;
}

void Agent::On(const DrainAsked&) {
  options_.log.Info("asked to stop");
  Perform(supervisor_.Drain(absl::Now()));
}

void Agent::Perform(const PoolSupervisor::Actions& actions) {
  for (const PoolSupervisor::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
}

void Agent::Do(const PoolSupervisor::StartRanks&) {
  options_.log.Info(
      absl::StrCat("job ", assignment_.spec().name(), ": starting ", options_.ranks, " rank(s)"));
  if (const absl::Status status = StartRanks(); !status.ok()) {
    Perform(supervisor_.StartFailed(status.ToString()));
  }
}

void Agent::Do(const PoolSupervisor::KillRanks&) {
  ++group_;
  for (const auto& rank : ranks_) rank->Signal(SIGKILL);
  for (const auto& rank : ranks_) rank->Kill();
  ranks_.clear();
}

void Agent::Do(const PoolSupervisor::DrainRanks&) {
  options_.log.Info(absl::StrCat("the ranks finish their step and send what they owe, within ",
                                 absl::FormatDuration(options_.drain)));
  for (const auto& rank : ranks_) rank->Signal(SIGTERM);
}

void Agent::Do(const PoolSupervisor::Rejoin& action) {
  options_.log.Warning(absl::StrCat(action.reason, "; coming back as a new incarnation in ",
                                    absl::FormatDuration(action.delay)));
  membership_->Rejoin(action.reason, action.delay);
}

void Agent::Do(const PoolSupervisor::Done& action) {
  if (action.had_work) membership_->SetFarewell("asked to stop", options_.return_within);
  done_ = true;
}

// Once: the coordinator has just assigned a job, so it answers.
void Agent::ChooseBulkChannels() {
  if (bulk_channels_ > 0) return;
  BulkLink link{.megabits_per_second = options_.link_mbps / options_.ranks};
  link.send_buffer_bytes = SendBufferBytesMax().value_or(link.send_buffer_bytes);
  const absl::StatusOr<absl::Duration> round_trip = membership_->MeasureRoundTrip(kProbeTimeout);
  if (!round_trip.ok()) {
    bulk_channels_ = kDistantChannelsMin;
    options_.log.Warning(absl::StrCat(bulk_channels_,
                                      " bulk channels for each rank: the round trip ",
                                      "is not known: ", round_trip.status().ToString()));
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
  Do(PoolSupervisor::KillRanks{});  // What is left of the last group has ended.
  ChooseBulkChannels();
  LH_RETURN_IF_ERROR(PrepareMeeting());
  for (int rank = 0; rank < options_.ranks; ++rank) {
    LH_ASSIGN_OR_RETURN(
        std::unique_ptr<RankProcess> process,
        RankProcess::Start(RankOptions(rank),
                           {.on_report =
                                [this, group = group_, rank](const RankReport& report) {
                                  Post(Reported{group, rank, report});
                                },
                            .on_exit =
                                [this, group = group_, rank](int code) {
                                  Post(Exited{group, rank, code});
                                }}));
    ranks_.push_back(std::move(process));
  }
  return absl::OkStatus();
}

// Ranks of the last group that come late are refused from now on.
absl::Status Agent::PrepareMeeting() {
  if (options_.ranks == 1) return absl::OkStatus();
  if (rendezvous_ == nullptr) {
    // Within this machine: the token is enough.
    LH_ASSIGN_OR_RETURN(rendezvous_, RendezvousServer::Start({.token = rendezvous_token_}));
  }
  return rendezvous_->StartGeneration(group_, options_.ranks);
}

RankProcess::Options Agent::RankOptions(int rank) const {
  RankProcess::Options options{.program = options_.rank_program, .log = options_.log};
  options.arguments = {"--coordinator",
                       options_.coordinator,
                       "--pool",
                       options_.pool,
                       "--incarnation",
                       incarnation_,
                       "--rank",
                       absl::StrCat(rank),
                       "--ranks",
                       absl::StrCat(options_.ranks),
                       "--threads",
                       absl::StrCat(options_.threads),
                       "--bulk-channels",
                       absl::StrCat(bulk_channels_),
                       "--push-bytes-per-second",
                       absl::StrCat(push_bytes_per_second_),
                       "--data-dir",
                       options_.data_dir,
                       "--drain-seconds",
                       absl::StrCat(absl::ToDoubleSeconds(options_.drain)),
                       "--progress-timeout",
                       absl::StrCat(absl::ToDoubleSeconds(options_.progress.at_least)),
                       "--progress-factor",
                       absl::StrCat(options_.progress.factor),
                       "--log-level",
                       options_.log_level};
  if (!options_.tls_files.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--tls-ca", options_.tls_files.ca, "--tls-certificate",
                              options_.tls_files.certificate, "--tls-key", options_.tls_files.key});
  }
  if (rendezvous_ != nullptr) {
    options.arguments.insert(options.arguments.end(), {"--rendezvous", rendezvous_->address(),
                                                       "--generation", absl::StrCat(group_)});
    options.environment.push_back(absl::StrCat(kRendezvousTokenVariable, "=", rendezvous_token_));
  }
  // Spinning OpenMP threads of several ranks on few cores cost an order of magnitude.
  options.environment.push_back("OMP_WAIT_POLICY=passive");
  options.environment.push_back(absl::StrCat("OMP_NUM_THREADS=", options_.threads));
  LH_CHECK(google::protobuf::util::MessageToJsonString(assignment_, &options.input).ok(),
           "an assignment has a JSON form");
  return options;
}

}  // namespace longhaul
