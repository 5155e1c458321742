#include "worker/agent/membership_client.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/random.h"
#include "common/base/random_hex.h"
#include "common/config/capabilities.h"
#include "common/rpc/channel.h"
#include "common/rpc/link_probe.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "common/rpc/tls_probe.h"
#include "google/protobuf/util/time_util.h"

namespace longhaul {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(5);
// Of another agent's lease, where the coordinator does not say.
constexpr absl::Duration kLeaseIfUnknown = absl::Seconds(10);
constexpr absl::Duration kBetweenReminders = absl::Minutes(1);
constexpr int kFailuresBetweenProbes = 20;

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

absl::Duration LeaseOf(const google::protobuf::Duration& lease) {
  return absl::Milliseconds(google::protobuf::util::TimeUtil::DurationToMilliseconds(lease));
}

}  // namespace

MembershipClient::MembershipClient(Options options, OnStanding on_standing, OnRefused on_refused)
    : options_(std::move(options)),
      on_standing_(std::move(on_standing)),
      on_refused_(std::move(on_refused)),
      channel_(MakeChannel({.address = options_.coordinator, .tls = options_.tls})),
      stub_(v1::PoolService::NewStub(channel_)),
      thread_([this](std::stop_token stop) { Run(stop); }) {}

MembershipClient::~MembershipClient() {
  thread_.request_stop();
  thread_.join();
}

absl::StatusOr<absl::Duration> MembershipClient::MeasureRoundTrip(absl::Duration timeout) const {
  return longhaul::MeasureRoundTrip(channel_, absl::Now() + timeout);
}

void MembershipClient::Run(const std::stop_token& stop) {
  incarnation_ = RandomHex();
  Random random(std::hash<std::string>()(incarnation_));
  const Backoff backoff{.max = absl::Seconds(2)};
  for (int failures = 0; !stop.stop_requested();) {
    if (const auto rejoin = TakeRejoin()) {
      Leave(rejoin->reason);
      incarnation_ = RandomHex();
      Apply({}, {});
      WaitUnlessStopped(rejoin->delay, stop);
      continue;
    }
    const absl::StatusOr<absl::Duration> lease = joined_ ? Beat() : Join();
    if (lease.ok()) {
      if (!trouble_.empty()) options_.log.Info("the coordinator answers again");
      trouble_.clear();
      link_trouble_.clear();
      failures = 0;
      Pause(std::min(options_.heartbeat, *lease / 3), stop);
      continue;
    }
    if (const absl::Status final = WhetherFinal(lease.status()); !final.ok()) {
      if (on_refused_) on_refused_(final);
      return;
    }
    Complain(lease.status());
    if (joined_ && absl::IsInvalidArgument(lease.status())) DropReports();
    if (joined_ && absl::IsNotFound(lease.status())) {
      joined_ = false;  // It restarted, or our lease ended: the same incarnation keeps its place,
                        // if there is one.
      continue;
    }
    if (absl::IsAborted(lease.status())) {
      incarnation_ = RandomHex();
      Apply({}, {});
      joined_ = false;
    }
    const absl::Duration asked = RetryDelayOf(lease.status()).value_or(absl::ZeroDuration());
    AwaitNextAttempt(
        {&channel_, 1},
        std::max(std::min(asked, absl::Seconds(1)), FullJitter(backoff, failures++, random)), stop);
  }
  if (!joined_) return;
  Farewell farewell;
  bool draining;
  {
    absl::MutexLock lock(&mutex_);
    farewell = farewell_;
    draining = draining_;
  }
  if (draining && trouble_.empty()) (void)Beat();  // How far the pool came.
  Leave(farewell.reason, farewell.return_within);
}

absl::Status MembershipClient::WhetherFinal(const absl::Status& failure) {
  switch (failure.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      if (joined_) return absl::OkStatus();  // A heartbeat's report was refused, not the pool.
      return absl::Status(failure.code(),
                          absl::StrCat("the coordinator refuses this pool: ", failure.message()));
    case absl::StatusCode::kUnimplemented:
      if (joined_) return absl::OkStatus();
      return absl::Status(failure.code(), absl::StrCat(options_.coordinator,
                                                       " is not a coordinator of this project: ",
                                                       failure.message()));
    case absl::StatusCode::kUnavailable:
      break;
    default:
      return absl::OkStatus();
  }
  // Before the first answer, and only then: whether the two sides mean the same kind of link.
  if (ever_joined_ || probes_-- > 0) return absl::OkStatus();
  probes_ = kFailuresBetweenProbes;
  const absl::StatusOr<bool> tls = SpeaksTls(options_.coordinator, absl::Now() + kCallDeadline);
  link_trouble_.clear();
  if (!tls.ok()) return absl::OkStatus();
  if (*tls == (options_.tls != nullptr)) {
    // Files may be replaced while this waits: not final.
    link_trouble_ = std::string(
        ExplainConnection(options_.coordinator, options_.tls_files, absl::Now() + kCallDeadline)
            .message());
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      *tls ? absl::StrCat("the coordinator at ", options_.coordinator,
                          " wants TLS: give --tls-ca, --tls-certificate and --tls-key")
           : absl::StrCat("the coordinator at ", options_.coordinator,
                          " speaks plaintext: leave out --tls-ca, --tls-certificate and --tls-key, "
                          "or start it with them"));
}

// Refused, they would be refused for ever, and the lease would end.
void MembershipClient::DropReports() {
  absl::MutexLock lock(&mutex_);
  next_.clear_evaluations();
  next_.clear_failure();
}

void MembershipClient::Complain(const absl::Status& trouble) {
  const absl::Time now = absl::Now();
  // The other holder's lease runs down, so the text alone is new each time.
  const std::string text =
      absl::IsAlreadyExists(trouble) ? "the name is taken"
      : absl::IsCancelled(trouble)   ? "the coordinator is going down"
      : absl::IsUnavailable(trouble) && !link_trouble_.empty()
          ? link_trouble_
          : absl::StrCat(absl::StatusCodeToString(trouble.code()), ": ", trouble.message());
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

absl::StatusOr<absl::Duration> MembershipClient::Join() {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  v1::JoinRequest request = options_.join;
  request.set_incarnation(incarnation_);
  // The ranks go on while the group does.
  if (!node_.incarnation().empty()) {
    request.set_running(node_.incarnation());
    request.set_node(node_.node());
  }
  v1::JoinResponse response;
  if (const grpc::Status status = stub_->Join(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  if (!joined_) options_.log.Info(absl::StrCat("joined ", options_.coordinator));
  Hear(response);
  joined_ = ever_joined_ = true;
  Apply(response.assignment(), response.node());
  return LeaseOf(response.lease());
}

// Another version may come with every restart of the coordinator.
void MembershipClient::Hear(const v1::JoinResponse& response) {
  const std::string& own = options_.join.version();
  const std::string other = response.version() == own ? "" : response.version();
  if (std::exchange(other_version_, other) != other && !other.empty()) {
    options_.log.Info(absl::StrCat("the coordinator's version is ", other, ", this program's ", own,
                                   ": they use what both know"));
  }
  absl::MutexLock lock(&mutex_);
  takes_pool_evaluations_ = absl::c_linear_search(response.capabilities(), kPoolEvaluations);
}

absl::StatusOr<absl::Duration> MembershipClient::Beat() {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  v1::HeartbeatRequest request;
  {
    absl::MutexLock lock(&mutex_);
    request = next_;
    request.set_draining(draining_);
    urgent_ = false;
  }
  request.set_pool(options_.join.pool());
  request.set_incarnation(incarnation_);
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
  Apply(response.assignment(), response.node());
  return LeaseOf(response.lease());
}

void MembershipClient::Leave(const std::string& reason, absl::Duration return_within) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(2));
  v1::LeaveRequest request;
  request.set_pool(options_.join.pool());
  request.set_incarnation(incarnation_);
  request.set_reason(reason);
  if (return_within > absl::ZeroDuration()) {
    *request.mutable_return_within() = google::protobuf::util::TimeUtil::MillisecondsToDuration(
        absl::ToInt64Milliseconds(return_within));
  }
  v1::LeaveResponse response;
  (void)stub_->Leave(&context, request, &response);  // Best effort: the lease ends by itself.
  joined_ = false;
}

void MembershipClient::Apply(const v1::Assignment& assignment, const v1::NodePlace& node) {
  node_ = node;
  TellMissing(node);
  const Standing standing = {options_.join.nodes() > 1 ? node.incarnation() : incarnation_,
                             assignment, node};
  {
    absl::MutexLock lock(&mutex_);
    if (const Subject subject = standing.subject(); subject_ != subject) {
      // The group that drained has ended.
      if (options_.join.nodes() > 1 && subject_.has_value() &&
          subject_->incarnation != subject.incarnation) {
        draining_ = false;
      }
      subject_ = subject;
      next_.Clear();
      next_.set_job_id(subject.job);
      if (options_.join.nodes() > 1) next_.set_running(subject.incarnation);
    }
  }
  on_standing_(standing);
}

void MembershipClient::TellMissing(const v1::NodePlace& node) {
  const absl::Time now = absl::Now();
  const bool same = node.missing() == missing_;
  if (same && (missing_.empty() || now - missing_told_ < kBetweenReminders)) return;
  missing_ = node.missing();
  missing_told_ = now;
  if (missing_.empty()) {
    if (!node.incarnation().empty()) options_.log.Info("all nodes of the pool are here");
    return;
  }
  options_.log.Info(absl::StrFormat(
      "this is node %d; the pool waits for %s, for %s", node.node(), missing_,
      absl::FormatDuration(absl::Trunc(LeaseOf(node.missing_for()), absl::Seconds(1)))));
}

std::optional<MembershipClient::RejoinRequest> MembershipClient::TakeRejoin() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(rejoin_, std::nullopt);
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
  if (subject_ != of) return;
  urgent_ = urgent_ || urgent;
  *next_.mutable_progress() = progress;
}

void MembershipClient::AddEvaluation(const Subject& of, const v1::Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  if (subject_ != of || (evaluation.of_pool() && !takes_pool_evaluations_)) return;
  *next_.add_evaluations() = evaluation;
  urgent_ = true;
}

void MembershipClient::SetFinished(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (subject_ != of) return;
  next_.set_finished(true);
  urgent_ = true;
}

void MembershipClient::ReportFailure(const Subject& of, const v1::JobError& failure) {
  absl::MutexLock lock(&mutex_);
  if (subject_ != of) return;
  *next_.mutable_failure() = failure;
  urgent_ = true;
}

void MembershipClient::SetDraining(const Subject& of) {
  absl::MutexLock lock(&mutex_);
  if (options_.join.nodes() > 1 && subject_ != of) return;
  draining_ = urgent_ = true;
}

void MembershipClient::SetFarewell(const std::string& reason, absl::Duration return_within) {
  absl::MutexLock lock(&mutex_);
  farewell_ = {reason, return_within};
}

void MembershipClient::Rejoin(const std::string& reason, absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  rejoin_ = RejoinRequest{reason, delay};
}

}  // namespace longhaul
