#include "worker/agent/membership_client.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/names.h"
#include "common/base/random.h"
#include "common/base/random_hex.h"
#include "common/config/capabilities.h"
#include "common/rpc/channel.h"
#include "common/rpc/deadline.h"
#include "common/rpc/link_probe.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "common/rpc/tls_probe.h"
#include "google/protobuf/util/time_util.h"

namespace longhaul {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(5);
// Of one look at the link, which a stop has to await.
constexpr absl::Duration kProbeMax = absl::Seconds(2);
// The assumed lease of another agent, if the coordinator does not tell it.
constexpr absl::Duration kLeaseIfUnknown = absl::Seconds(10);
constexpr absl::Duration kBetweenReminders = absl::Minutes(1);
// A link that has worked is examined only when it fails for seconds, since that takes time, too.
constexpr int kFailuresBeforeProbe = 8, kFailuresBetweenProbes = 20;
// Of JoinRequest.kept_jobs.
constexpr size_t kKeptJobsMax = 256;

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(GrpcDeadline(SteadyTime() + timeout));
}

absl::Duration LeaseOf(const google::protobuf::Duration& lease) {
  return absl::Milliseconds(google::protobuf::util::TimeUtil::DurationToMilliseconds(lease));
}

// With the next step, where the coordinator names one.
std::string WordsOf(const absl::Status& failure) {
  const std::optional<ErrorDetail> info = ErrorInfoOf(failure);
  if (!info || !info->metadata.contains("hint")) return std::string(failure.message());
  return absl::StrCat(failure.message(), "; ", info->metadata.at("hint"));
}

}  // namespace

MembershipClient::MembershipClient(Options options, OnState on_state, OnRefused on_refused)
    : options_(std::move(options)),
      on_state_(std::move(on_state)),
      on_refused_(std::move(on_refused)),
      channel_(MakeChannel({.address = options_.coordinator,
                            .tls = options_.tls,
                            .keepalive = kPromptKeepalive,
                            .small_segments = true})),
      stub_(v1::PoolService::NewStub(channel_)),
      membership_(options_.join.nodes() > 1, RandomHex(), options_.before),
      thread_([this](std::stop_token stop) { Run(stop); }) {}

MembershipClient::~MembershipClient() {
  thread_.request_stop();
  thread_.join();
}

absl::StatusOr<absl::Duration> MembershipClient::MeasureRoundTrip(absl::Duration timeout) const {
  return longhaul::MeasureRoundTrip(channel_, SteadyTime() + timeout);
}

void MembershipClient::Run(const std::stop_token& stop) {
  if (options_.on_incarnation) {
    absl::MutexLock lock(&mutex_);
    options_.on_incarnation(membership_.incarnation());
  }
  Random random(std::hash<std::string>()(RandomHex()));
  const Backoff backoff{.max = absl::Seconds(2)};
  for (int failures = 0; !stop.stop_requested();) {
    if (const auto rejoin = TakeRejoin()) {
      Leave(rejoin->reason);
      BeginAnew();
      WaitUnlessStopped(rejoin->delay, stop);
      continue;
    }
    if (Stands()) {
      WaitUnlessStopped(Period(), stop);
      continue;
    }
    const absl::StatusOr<absl::Duration> lease = joined() ? Beat() : Join(stop);
    if (lease.ok()) {
      if (!trouble_.empty()) options_.log.Info("the coordinator answers again");
      trouble_.clear();
      link_trouble_.clear();
      probes_ = kFailuresBeforeProbe;
      failures = 0;
      Pause(std::min(Period(), *lease / 3), stop);
      continue;
    }
    if (stop.stop_requested()) continue;
    if (const absl::Status final = WhetherFinal(lease.status()); !final.ok()) {
      if (on_refused_) on_refused_(final);
      return;
    }
    Complain(lease.status());
    if (Recover(lease.status())) continue;
    const absl::Duration asked = RetryDelayOf(lease.status()).value_or(absl::ZeroDuration());
    AwaitNextAttempt(
        {&channel_, 1},
        std::max(std::min(asked, absl::Seconds(1)), FullJitter(backoff, failures++, random)), stop);
  }
  if (joined()) Depart();
}

bool MembershipClient::Recover(const absl::Status& error) {
  AgentMembership::Remedy remedy;
  {
    absl::MutexLock lock(&mutex_);
    remedy = membership_.Refused(error);
  }
  switch (remedy) {
    case AgentMembership::Remedy::kNone:
      return false;
    case AgentMembership::Remedy::kDropReports:
      DropReports();
      return false;
    case AgentMembership::Remedy::kJoin:
      return true;
    case AgentMembership::Remedy::kBeginAnew:
      BeginAnew();
      return false;
    case AgentMembership::Remedy::kLeaveGroup:
      Apply({}, {}, [](AgentMembership& membership) { return membership.LeaveGroup(); });
      return false;
  }
  return false;
}

void MembershipClient::BeginAnew() {
  const std::string incarnation = RandomHex();
  Apply({}, {}, [&](AgentMembership& membership) { return membership.BeginAnew(incarnation); });
  if (options_.on_incarnation) options_.on_incarnation(incarnation);
}

void MembershipClient::Depart() {
  Farewell farewell;
  bool draining;
  {
    absl::MutexLock lock(&mutex_);
    farewell = farewell_;
    draining = membership_.draining();
  }
  // One more heartbeat reports how far the pool came.
  if (draining && trouble_.empty()) (void)Beat();
  Leave(farewell.reason, farewell.return_within);
}

absl::Status MembershipClient::WhetherFinal(const absl::Status& failure) {
  switch (failure.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      // Only a report of the heartbeat was refused, not the pool.
      if (joined()) return absl::OkStatus();
      return absl::Status(failure.code(),
                          absl::StrCat("the coordinator refuses this pool: ", WordsOf(failure)));
    case absl::StatusCode::kUnimplemented:
      if (joined()) return absl::OkStatus();
      return absl::Status(failure.code(), absl::StrCat(options_.coordinator,
                                                       " is not a coordinator of this project: ",
                                                       failure.message()));
    case absl::StatusCode::kUnavailable:
      break;
    default:
      return absl::OkStatus();
  }
  // Checks whether both sides use the same kind of link, and accept each other's certificate.
  if (probes_-- > 0) return absl::OkStatus();
  probes_ = kFailuresBetweenProbes;
  const absl::StatusOr<bool> tls = SpeaksTls(options_.coordinator, SteadyTime() + kProbeMax);
  link_trouble_.clear();
  if (!tls.ok()) return absl::OkStatus();
  if (*tls == (options_.tls != nullptr)) {
    // Not final, since files may be replaced while the worker waits.
    link_trouble_ = std::string(
        ExplainConnection(options_.coordinator, options_.tls_files, SteadyTime() + kProbeMax)
            .message());
    return absl::OkStatus();
  }
  // A coordinator that has answered may be started again as it was.
  if (ever_joined_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      *tls ? absl::StrCat("the coordinator at ", options_.coordinator,
                          " requires TLS: give --tls-ca, --tls-certificate and --tls-key")
           : absl::StrCat("the coordinator at ", options_.coordinator,
                          " uses plaintext: omit --tls-ca, --tls-certificate and --tls-key, or "
                          "start it with TLS"));
}

// The coordinator would refuse the same reports again and again, and meanwhile the lease would end.
void MembershipClient::DropReports() {
  absl::MutexLock lock(&mutex_);
  next_.clear_evaluations();
  next_.clear_failure();
}

std::string MembershipClient::TextOf(const absl::Status& trouble) const {
  // The message also has the time left of the other lease, which changes with each answer.
  if (absl::IsAlreadyExists(trouble)) return "the name is taken";
  if (absl::IsCancelled(trouble)) return "the coordinator is shutting down";
  if (absl::IsUnavailable(trouble) && !link_trouble_.empty()) return link_trouble_;
  if (absl::IsUnavailable(trouble) && !ever_joined_)
    return absl::StrCat(trouble.message(), ProxyNote(options_.coordinator));
  // Here the message alone says everything.
  if (absl::IsUnavailable(trouble) || absl::IsNotFound(trouble) ||
      absl::IsDeadlineExceeded(trouble))
    return std::string(trouble.message());
  return absl::StrCat(absl::StatusCodeToString(trouble.code()), ": ", trouble.message());
}

void MembershipClient::Complain(const absl::Status& trouble) {
  const absl::Time now = SteadyTime();
  const std::string text = TextOf(trouble);
  const bool is_new = text != trouble_;
  if (is_new) {
    trouble_ = text;
    troubled_since_ = now;
    lease_seen_ = absl::ZeroDuration();
  }
  if (absl::IsAlreadyExists(trouble)) {
    lease_seen_ = std::max(lease_seen_, RetryDelayOf(trouble).value_or(kLeaseIfUnknown));
    if (!is_new && now - troubled_since_ > 3 * lease_seen_ &&
        now - complained_at_ >= options_.complaints) {
      complained_at_ = now;
      const bool node = options_.join.nodes() > 1;
      options_.log.Warning(absl::StrCat(
          "another worker holds ", node ? "this node's place in pool " : "the name ",
          options_.join.pool(), " and keeps renewing it, for ",
          absl::FormatDuration(absl::Trunc(now - troubled_since_, absl::Seconds(1))),
          " now: stop that one, or start this one with another --", node ? "node" : "pool"));
      return;
    }
    if (!is_new) return;
  } else if (!is_new && now - complained_at_ < kBetweenReminders) {
    return;
  }
  complained_at_ = now;
  options_.log.Warning(absl::StrCat(
      absl::IsAlreadyExists(trouble) ? trouble.message() : text, "; trying again",
      is_new
          ? ""
          : absl::StrCat(", for ",
                         absl::FormatDuration(absl::Trunc(now - troubled_since_, absl::Seconds(1))),
                         " now")));
}

absl::StatusOr<absl::Duration> MembershipClient::Join(const std::stop_token& stop) {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  // Once there is a connection the coordinator may have taken the pool, which then has to leave.
  const std::stop_callback give_up(stop, [&] {
    if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) context.TryCancel();
  });
  v1::JoinRequest request = options_.join;
  {
    absl::MutexLock lock(&mutex_);
    request.set_incarnation(membership_.incarnation());
    request.set_replaces(membership_.before());
    if (const auto running = membership_.running()) {
      request.set_running(running->incarnation);
      request.set_node_given(!request.has_node());
      request.set_node(running->node);
    }
  }
  std::vector<std::string> kept = AskAboutKept();
  request.mutable_kept_jobs()->Assign(kept.begin(), kept.end());
  v1::JoinResponse response;
  if (const grpc::Status status = stub_->Join(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  options_.log.Info(absl::StrCat("joined ", options_.coordinator));
  Hear(response);
  ever_joined_ = true;
  lease_ = LeaseOf(response.lease());
  Grant(response.assignment(), response.node());
  TellEnded(std::move(kept), response.ended_jobs());
  return lease_;
}

std::vector<std::string> MembershipClient::AskAboutKept() {
  asked_about_kept_ = SteadyTime();
  std::vector<std::string> kept;
  if (options_.kept_jobs) kept = options_.kept_jobs();
  if (kept.size() <= kKeptJobsMax) return kept;
  // They take turns.
  absl::c_sort(kept);
  absl::c_rotate(kept, absl::c_upper_bound(kept, asked_about_last_));
  kept.resize(kKeptJobsMax);
  asked_about_last_ = kept.back();
  return kept;
}

// Of those that it was asked about.
void MembershipClient::TellEnded(
    std::vector<std::string> kept,
    const google::protobuf::RepeatedPtrField<std::string>& ended) const {
  std::erase_if(kept, [&](const std::string& job) { return !absl::c_linear_search(ended, job); });
  if (options_.on_ended_jobs && !kept.empty()) options_.on_ended_jobs(kept);
}

// The coordinator's version may change with every restart.
void MembershipClient::Hear(const v1::JoinResponse& response) {
  const std::string& own = options_.join.version();
  const std::string other = response.version() == own ? "" : response.version();
  if (std::exchange(other_version_, other) != other && !other.empty()) {
    options_.log.Info(absl::StrCat("the coordinator's version is ", other, ", this program's ", own,
                                   ": they use the features that both have"));
  }
  absl::MutexLock lock(&mutex_);
  takes_pool_evaluations_ = absl::c_linear_search(response.capabilities(), kPoolEvaluations);
  takes_stopping_ = absl::c_linear_search(response.capabilities(), kStopsWhenAsked);
}

absl::StatusOr<absl::Duration> MembershipClient::Beat() {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  v1::HeartbeatRequest request;
  {
    absl::MutexLock lock(&mutex_);
    request = next_;
    request.set_draining(membership_.draining());
    request.set_incarnation(membership_.incarnation());
    urgent_ = false;
  }
  request.set_pool(options_.join.pool());
  request.set_has_spec_of(with_spec_.job_id());
  std::vector<std::string> kept;
  if (SteadyTime() - asked_about_kept_ >= options_.kept_jobs_every) kept = AskAboutKept();
  request.mutable_kept_jobs()->Assign(kept.begin(), kept.end());
  v1::HeartbeatResponse response;
  if (const grpc::Status status = stub_->Heartbeat(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (request.has_failure()) next_.clear_failure();
    auto* pending = next_.mutable_evaluations();
    const int64_t upto = response.evaluations_acknowledged();
    const int sent = request.evaluations_size();
    int acknowledged = 0;
    while (acknowledged < sent && request.evaluations(acknowledged).step() <= upto) ++acknowledged;
    pending->DeleteSubrange(0, acknowledged);
  }
  lease_ = LeaseOf(response.lease());
  Grant(response.assignment(), response.node());
  TellEnded(std::move(kept), response.ended_jobs());
  return lease_;
}

void MembershipClient::Leave(const std::string& reason, absl::Duration return_within) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(2));
  v1::LeaveRequest request;
  request.set_pool(options_.join.pool());
  {
    absl::MutexLock lock(&mutex_);
    request.set_incarnation(membership_.incarnation());
    membership_.Left();
  }
  request.set_reason(reason);
  if (return_within > absl::ZeroDuration()) {
    *request.mutable_return_within() = google::protobuf::util::TimeUtil::MillisecondsToDuration(
        absl::ToInt64Milliseconds(return_within));
  }
  v1::LeaveResponse response;
  // An error is ignored, since the lease ends by itself.
  (void)stub_->Leave(&context, request, &response);
}

void MembershipClient::Grant(v1::Assignment assignment, const v1::NodePlace& node) {
  if (assignment.has_spec()) {
    with_spec_ = assignment;
  } else if (!assignment.job_id().empty() && assignment.job_id() == with_spec_.job_id()) {
    *assignment.mutable_spec() = with_spec_.spec();
  }
  Apply(assignment, node, [&](AgentMembership& membership) {
    return membership.Granted(assignment.job_id(), assignment.ordinal(),
                              {node.incarnation(), node.node()});
  });
}

void MembershipClient::Apply(const v1::Assignment& assignment, const v1::NodePlace& node,
                             const std::function<bool(AgentMembership&)>& change) {
  const bool idle = assignment.job_id().empty() && options_.join.nodes() <= 1;
  idle_since_ = idle ? std::optional(idle_since_.value_or(SteadyTime())) : std::nullopt;
  TellMissing(node);
  State state = {"", assignment, node, lease_};
  {
    absl::MutexLock lock(&mutex_);
    if (change(membership_)) {
      next_.Clear();
      next_.set_job_id(assignment.job_id());
      if (options_.join.nodes() > 1) next_.set_running(membership_.of_ranks());
    }
    if (!assignment.stop()) next_.clear_stopped();
    state.incarnation = membership_.of_ranks();
  }
  on_state_(state);
}

bool MembershipClient::Stands() {
  if (!options_.stalled_for) return false;
  const absl::Duration stalled = options_.stalled_for();
  const bool stands = stalled >= std::max(lease_, kStandsAtLeast);
  if (std::exchange(stands_, stands) == stands) return stands;
  if (stands) {
    options_.log.Error(absl::StrCat(
        "this agent has been inactive for ",
        absl::FormatDuration(absl::Trunc(stalled, absl::Seconds(1))),
        ": it does not renew its lease until it resumes, so that other pools do not wait for it"));
  } else {
    options_.log.Warning("this agent resumes and renews its lease");
  }
  return stands;
}

absl::Duration MembershipClient::Period() const {
  const bool idle = idle_since_.has_value() && SteadyTime() - *idle_since_ >= options_.idle_after;
  return idle ? options_.idle_heartbeat : options_.heartbeat;
}

void MembershipClient::TellMissing(const v1::NodePlace& node) {
  const absl::Time now = SteadyTime();
  const bool same = node.missing() == missing_;
  if (same && (missing_.empty() || now - missing_told_ < kBetweenReminders)) return;
  missing_ = node.missing();
  missing_told_ = now;
  if (missing_.empty()) {
    if (!node.incarnation().empty()) options_.log.Info("all nodes of the pool have joined");
    return;
  }
  std::string words =
      absl::StrFormat("this is node %d; the pool waits for %s", node.node(), missing_);
  const absl::Duration waited = absl::Trunc(LeaseOf(node.missing_for()), absl::Seconds(1));
  if (waited > absl::ZeroDuration())
    absl::StrAppend(&words, ", for ", absl::FormatDuration(waited), " now");
  options_.log.Info(words);
}

std::optional<MembershipClient::RejoinRequest> MembershipClient::TakeRejoin() {
  absl::MutexLock lock(&mutex_);
  std::optional<RejoinRequest> rejoin = std::exchange(rejoin_, std::nullopt);
  if (rejoin.has_value() && !membership_.Rejoins(rejoin->of)) rejoin.reset();
  return rejoin;
}

void MembershipClient::Pause(absl::Duration duration, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    urgent_ = true;
  });
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return urgent_ || rejoin_.has_value();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&due), duration);
}

void MembershipClient::SetProgress(const Subject& of, const v1::PoolProgress& progress,
                                   bool urgent) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of)) return;
  urgent_ = urgent_ || urgent;
  *next_.mutable_progress() = progress;
}

void MembershipClient::AddEvaluation(const Subject& of, const v1::Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of) || (evaluation.of_pool() && !takes_pool_evaluations_)) return;
  *next_.add_evaluations() = evaluation;
  urgent_ = true;
}

void MembershipClient::SetMerged(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of)) return;
  next_.set_merged(true);
  urgent_ = true;
}

void MembershipClient::SetFinished(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of)) return;
  next_.set_finished(true);
  urgent_ = true;
}

void MembershipClient::SetStopping(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (!takes_stopping_) {
    urgent_ = membership_.Drain(of) || urgent_;
  } else if (membership_.About(of)) {
    next_.set_stopping(true);
    urgent_ = true;
  }
}

void MembershipClient::SetStopped(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of) || next_.stopped()) return;
  next_.set_stopped(true);
  urgent_ = true;
}

void MembershipClient::ClearStopping() {
  absl::MutexLock lock(&mutex_);
  next_.clear_stopping();
  next_.clear_stopped();
}

void MembershipClient::ReportFailure(const Subject& of, const v1::JobError& failure) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.About(of)) return;
  *next_.mutable_failure() = failure;
  urgent_ = true;
}

void MembershipClient::SetDraining(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  urgent_ = membership_.Drain(of) || urgent_;
}

void MembershipClient::SetFarewell(const std::string& reason, absl::Duration return_within) {
  absl::MutexLock lock(&mutex_);
  farewell_ = {reason, return_within};
}

void MembershipClient::Rejoin(const Subject& of, const std::string& reason, absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  rejoin_ = RejoinRequest{of, reason, delay};
}

}  // namespace longhaul
