#include "worker/agent/agent.h"

#include <signal.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/link_probe.h"
#include "google/protobuf/util/json_util.h"
#include "worker/collective/tcp_rendezvous_server.h"
#include "worker/rank/rendezvous_token.h"

namespace longhaul {
namespace {

constexpr absl::Duration kRankGrace = absl::Seconds(5);
constexpr absl::Duration kProbeTimeout = absl::Seconds(5);

std::string RandomToken() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&token, absl::Hex(device(), absl::kZeroPad8));
  return token;
}

v1::JoinRequest MakeJoinRequest(const Agent::Options& options) {
  v1::JoinRequest request;
  request.set_pool(options.pool);
  request.set_ranks(options.ranks);
  request.set_device(options.device);
  request.set_version(LONGHAUL_VERSION);
  request.set_host(options.host);
  return request;
}

}  // namespace

Agent::Agent(Options options)
    : options_(std::move(options)),
      rendezvous_token_(RandomToken()),
      bulk_channels_(options_.bulk_channels) {
  membership_ = std::make_unique<MembershipClient>(
      MembershipClient::Options{.log = options_.log,
                                .coordinator = options_.coordinator,
                                .tls = options_.tls,
                                .join = MakeJoinRequest(options_),
                                .heartbeat = options_.heartbeat},
      [this](const std::string& incarnation, const v1::Assignment& assignment) {
        Post(Assigned{incarnation, assignment});
      });
}

Agent::~Agent() = default;

void Agent::Post(Event event) {
  absl::MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
}

Agent::Event Agent::Next() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !events_.empty(); };
  mutex_.Await(absl::Condition(&ready));  // The heartbeat's thread, the ranks and Stop end it.
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Agent::Stop() { Post(Stopped{}); }

void Agent::Run() {
  for (;;) {
    const Event event = Next();
    if (std::holds_alternative<Stopped>(event)) break;
    std::visit([this](const auto& e) { On(e); }, event);
  }
  StopRanks();
  membership_.reset();  // Leaves.
}

void Agent::On(const Assigned& event) {
  StopRanks();
  incarnation_ = event.incarnation;
  assignment_ = event.assignment;
  if (assignment_.job_id().empty()) {
    options_.log.Info("idle: waiting for a job");
    return;
  }
  options_.log.Info(
      absl::StrCat("job ", assignment_.spec().name(), ": starting ", options_.ranks, " rank(s)"));
  if (const absl::Status status = StartRanks(); !status.ok()) Lose(status.ToString());
}

void Agent::On(const Reported& event) {
  if (event.group != group_) return;
  if (event.report.has_progress()) {
    losses_ = 0;
    v1::PoolProgress progress = event.report.progress();
    progress.set_pool(options_.pool);
    progress.set_ranks(options_.ranks);
    // The last step's figures are to be there when the final round ends the job.
    const bool last = progress.inner_step() == assignment_.spec().train().steps();
    membership_->SetProgress(progress, last);
  }
  for (const v1::Evaluation& evaluation : event.report.evaluations())
    membership_->AddEvaluation(evaluation);
  if (event.report.has_failure()) {
    v1::JobError failure = event.report.failure();
    failure.set_pool(options_.pool);
    membership_->ReportFailure(failure);
  }
}

void Agent::On(const Exited& event) {
  if (event.group != group_) return;
  if (event.code == kRankFinished) return;
  if (event.code == kRankFailed) {
    StopRanks();  // The failure ends the job; its end ends the assignment.
    return;
  }
  Lose(event.code > 128
           ? absl::StrCat("rank ", event.rank, " was ended by signal ", event.code - 128)
           : absl::StrCat("rank ", event.rank, " ended with status ", event.code));
}

// A pool without one of its ranks has lost its place: it comes back as a newcomer, more slowly if
// it keeps happening.
void Agent::Lose(const std::string& reason) {
  StopRanks();
  const absl::Duration delay =
      std::min(absl::Milliseconds(200) * (1 << std::min(losses_++, 8)), absl::Seconds(30));
  options_.log.Warning(
      absl::StrCat(reason, "; coming back as a new incarnation in ", absl::FormatDuration(delay)));
  membership_->Rejoin(reason, delay);
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
  ChooseBulkChannels();
  if (options_.ranks > 1) {
    rendezvous_.reset();
    LH_ASSIGN_OR_RETURN(rendezvous_, TcpRendezvousServer::Start({.token = rendezvous_token_,
                                                                 .generation = group_,
                                                                 .size = options_.ranks}));
  }
  for (int rank = 0; rank < options_.ranks; ++rank) {
    LH_ASSIGN_OR_RETURN(
        std::unique_ptr<RankProcess> process,
        RankProcess::Start(RankOptions(rank), {.on_report =
                                                   [this, group = group_](const auto& report) {
                                                     Post(Reported{group, report});
                                                   },
                                               .on_exit =
                                                   [this, group = group_, rank](int code) {
                                                     Post(Exited{group, rank, code});
                                                   }}));
    ranks_.push_back(std::move(process));
  }
  return absl::OkStatus();
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
                       "--log-level",
                       options_.log_level};
  if (!options_.tls_files.empty()) {
    options.arguments.insert(options.arguments.end(),
                             {"--tls-ca", options_.tls_files.ca, "--tls-certificate",
                              options_.tls_files.certificate, "--tls-key", options_.tls_files.key});
  }
  if (rendezvous_ != nullptr) {
    options.arguments.insert(options.arguments.end(),
                             {"--rendezvous", absl::StrCat("127.0.0.1:", rendezvous_->port()),
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

void Agent::StopRanks() {
  ++group_;
  for (const auto& rank : ranks_) rank->Signal(SIGTERM);
  for (const auto& rank : ranks_) rank->Terminate(kRankGrace);
  ranks_.clear();
}

}  // namespace longhaul
