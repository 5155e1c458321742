#include "worker/agent/membership_client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/random.h"
#include "common/rpc/channel.h"
#include "common/rpc/link_probe.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "google/protobuf/util/time_util.h"

namespace longhaul {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(5);

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

absl::Duration LeaseOf(const google::protobuf::Duration& lease) {
  return absl::Milliseconds(google::protobuf::util::TimeUtil::DurationToMilliseconds(lease));
}

}  // namespace

MembershipClient::MembershipClient(Options options, OnAssignment on_assignment)
    : options_(std::move(options)),
      on_assignment_(std::move(on_assignment)),
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

void MembershipClient::NewIncarnation() {
  std::random_device device;
  incarnation_ =
      absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8),
                   absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

void MembershipClient::Run(const std::stop_token& stop) {
  NewIncarnation();
  Random random(std::hash<std::string>()(incarnation_));
  const Backoff backoff{.max = absl::Seconds(2)};
  std::string trouble;
  for (int failures = 0; !stop.stop_requested();) {
    if (const auto rejoin = TakeRejoin()) {
      Leave(rejoin->reason);
      NewIncarnation();
      Apply({});
      WaitUnlessStopped(rejoin->delay, stop);
      continue;
    }
    const absl::StatusOr<absl::Duration> lease = joined_ ? Beat() : Join();
    if (lease.ok()) {
      if (!trouble.empty()) options_.log.Info("the coordinator answers again");
      trouble.clear();
      failures = 0;
      Pause(std::min(options_.heartbeat, *lease / 3), stop);
      continue;
    }
    if (const std::string text = lease.status().ToString(); text != trouble) {
      options_.log.Warning(absl::StrCat(text, "; trying again"));
      trouble = text;
    }
    if (joined_ && absl::IsNotFound(lease.status())) {
      joined_ = false;  // It restarted, or our lease ended: the same incarnation keeps its place,
                        // if there is one.
      continue;
    }
    if (absl::IsAborted(lease.status())) {
      NewIncarnation();
      Apply({});
      joined_ = false;
    }
    const absl::Duration asked = RetryDelayOf(lease.status()).value_or(absl::ZeroDuration());
    AwaitNextAttempt(
        {&channel_, 1},
        std::max(std::min(asked, absl::Seconds(1)), FullJitter(backoff, failures++, random)), stop);
  }
  if (joined_) Leave("the worker stops");
}

absl::StatusOr<absl::Duration> MembershipClient::Join() {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  v1::JoinRequest request = options_.join;
  request.set_incarnation(incarnation_);
  v1::JoinResponse response;
  if (const grpc::Status status = stub_->Join(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  if (!joined_) options_.log.Info(absl::StrCat("joined ", options_.coordinator));
  joined_ = true;
  Apply(response.assignment());
  return LeaseOf(response.lease());
}

absl::StatusOr<absl::Duration> MembershipClient::Beat() {
  grpc::ClientContext context;
  SetDeadline(context, kCallDeadline);
  v1::HeartbeatRequest request;
  {
    absl::MutexLock lock(&mutex_);
    request = next_;
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
  Apply(response.assignment());
  return LeaseOf(response.lease());
}

void MembershipClient::Leave(const std::string& reason) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(2));
  v1::LeaveRequest request;
  request.set_pool(options_.join.pool());
  request.set_incarnation(incarnation_);
  request.set_reason(reason);
  v1::LeaveResponse response;
  (void)stub_->Leave(&context, request, &response);  // Best effort: the lease ends by itself.
  joined_ = false;
}

void MembershipClient::Apply(const v1::Assignment& assignment) {
  const std::pair<std::string, std::string> key = {
      incarnation_, absl::StrCat(assignment.job_id(), "#",
                                 assignment.job_id().empty() ? -1 : assignment.ordinal())};
  if (applied_ == key) return;
  applied_ = key;
  {
    absl::MutexLock lock(&mutex_);
    next_.Clear();
    next_.set_job_id(assignment.job_id());
  }
  on_assignment_(incarnation_, assignment);
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

void MembershipClient::SetProgress(const v1::PoolProgress& progress, bool urgent) {
  absl::MutexLock lock(&mutex_);
  urgent_ = urgent_ || urgent;
  *next_.mutable_progress() = progress;
}

void MembershipClient::AddEvaluation(const v1::Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  *next_.add_evaluations() = evaluation;
  urgent_ = true;
}

void MembershipClient::ReportFailure(const v1::JobError& failure) {
  absl::MutexLock lock(&mutex_);
  *next_.mutable_failure() = failure;
  urgent_ = true;
}

void MembershipClient::Rejoin(const std::string& reason, absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  rejoin_ = RejoinRequest{reason, delay};
}

}  // namespace longhaul
