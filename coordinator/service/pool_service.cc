#include "coordinator/service/pool_service.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/names.h"
#include "coordinator/service/refusal.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {
namespace {

constexpr int kEvaluationsMax = 1024;  // In one heartbeat.
constexpr size_t kTextBytesMax = 255;  // Of what pools tell of themselves.
constexpr size_t kDescriptionsMax = 10000;

absl::Status CheckJoin(const v1::JoinRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(request.pool(), request.incarnation()));
  if (request.ranks() < 1 || request.ranks() > kRanksMax) {
    return BadRequestError(
        {{"ranks", absl::StrCat(request.ranks(), " is not within 1 to ", kRanksMax)}});
  }
  if (request.host().size() > kTextBytesMax || request.version().size() > kTextBytesMax) {
    return BadRequestError(
        {{"host", absl::StrCat("it or the version has more than ", kTextBytesMax, " bytes")}});
  }
  return absl::OkStatus();
}

absl::Status CheckHeartbeat(const v1::HeartbeatRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(request.pool(), request.incarnation()));
  if (request.evaluations_size() > kEvaluationsMax) {
    return BadRequestError({{"evaluations", absl::StrCat("has more than ", kEvaluationsMax)}});
  }
  return absl::OkStatus();
}

// Of a job of `steps` inner steps.
absl::Status CheckEvaluations(const v1::HeartbeatRequest& request, int64_t steps) {
  for (const v1::Evaluation& evaluation : request.evaluations()) {
    if (evaluation.step() < 0 || evaluation.step() > steps) {
      return BadRequestError({{"evaluations", absl::StrCat("step ", evaluation.step(),
                                                           " is not within 0 to ", steps)}});
    }
    if (evaluation.version() < 0 || evaluation.tokens() < 0) {
      return BadRequestError({{"evaluations", "a version or a number of tokens is negative"}});
    }
  }
  return absl::OkStatus();
}

// Steps the core; the lease that it grants, or its refusal.
absl::StatusOr<GrantLease> Ask(Runtime& runtime, const Event& event) {
  absl::StatusOr<GrantLease> result = absl::InternalError("the core did not answer");
  runtime.Step(event, [&](const Answer& answer) {
    if (const Refuse* refusal = std::get_if<Refuse>(&answer)) result = ToStatus(*refusal);
    if (const GrantLease* grant = std::get_if<GrantLease>(&answer)) result = *grant;
  });
  return result;
}

v1::PoolState StateOf(const PoolView& view, absl::Time now) {
  if (view.lease_end <= now) return v1::LOST;
  if (!view.assignment.has_value()) return v1::IDLE;
  return view.ready ? v1::PARTICIPATING : v1::ASSIGNED;
}

}  // namespace

void PoolService::Assign(const GrantLease& grant, v1::Assignment* assignment) const {
  if (!grant.assignment.has_value()) return;
  const std::shared_ptr<LiveJob> job = runtime_->jobs().Find(grant.assignment->job);
  if (!job) return;
  assignment->set_job_id(job->id());
  *assignment->mutable_spec() = job->resolved().spec;
  assignment->set_ordinal(grant.assignment->ordinal);
}

void PoolService::Remember(const v1::JoinRequest& request) {
  if (descriptions_.size() >= kDescriptionsMax) {
    std::set<std::string> known;
    for (const PoolView& view : runtime_->pools()) known.insert(view.pool);
    std::erase_if(descriptions_, [&](const auto& item) { return !known.contains(item.first); });
  }
  v1::Pool& pool = descriptions_[request.pool()];
  pool.set_device(request.device());
  pool.set_host(request.host());
  pool.set_version(request.version());
}

absl::Status PoolService::DoJoin(const v1::JoinRequest& request, v1::JoinResponse* response) {
  LH_ASSIGN_OR_RETURN(
      const GrantLease grant,
      Ask(*runtime_, JoinPool{request.pool(), request.incarnation(), request.ranks()}));
  Remember(request);
  *response->mutable_lease() = ToProto(grant.lease);
  Assign(grant, response->mutable_assignment());
  runtime_->parts()
      .log->With({.pool = request.pool()})
      .Info(absl::StrCat("joined with ", request.ranks(), " ranks"));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* PoolService::Join(grpc::CallbackServerContext* context,
                                            const v1::JoinRequest* request,
                                            v1::JoinResponse* response) {
  if (const absl::Status valid = CheckJoin(*request); !valid.ok()) return Answered(context, valid);
  return AnswerFromOwner(context, runtime_, [=, this] { return DoJoin(*request, response); });
}

// Durable before they are acknowledged. A loss that is not a number cannot be stored, but is news
// all the same.
absl::Status PoolService::TakeEvaluations(const v1::HeartbeatRequest& request, LiveJob& job,
                                          v1::HeartbeatResponse* response) {
  for (const v1::Evaluation& evaluation : request.evaluations()) {
    const EvaluationRecord record{.job_id = job.id(),
                                  .step = evaluation.step(),
                                  .version = evaluation.version(),
                                  .loss = evaluation.loss(),
                                  .tokens = evaluation.tokens(),
                                  .final = evaluation.final()};
    const Logger log = runtime_->parts().log->With(
        {.job = job.name(), .pool = request.pool(), .round = record.version});
    if (std::isfinite(record.loss)) {
      const absl::Status stored = runtime_->parts().meta->PutEvaluation(record);
      runtime_->Note(stored);
      LH_RETURN_IF_ERROR(stored);
      job.progress.AddEvaluation(record);
      runtime_->parts().metrics->eval_loss.With({{"job", job.name()}}).Set(record.loss);
      log.Info(absl::StrCat("evaluation at step ", record.step, ": loss ", record.loss));
    } else {
      log.Warning(absl::StrCat("evaluation at step ", record.step, ": the loss is not finite"));
    }
    runtime_->Step(
        EvaluationReported{request.pool(), request.incarnation(), job.id(), record.final});
    response->set_evaluations_acknowledged(
        std::max(response->evaluations_acknowledged(), record.step));
  }
  return absl::OkStatus();
}

absl::Status PoolService::DoHeartbeat(const v1::HeartbeatRequest& request,
                                      v1::HeartbeatResponse* response) {
  const coordinator::Heartbeat heartbeat{request.pool(), request.incarnation(), request.job_id(),
                                         request.progress().inner_step()};
  LH_ASSIGN_OR_RETURN(GrantLease grant, Ask(*runtime_, heartbeat));
  runtime_->parts().metrics->heartbeats.With().Increment();
  const bool assigned = grant.assignment.has_value() && grant.assignment->job == request.job_id();
  if (const auto job = runtime_->jobs().Find(request.job_id()); job && assigned) {
    LH_RETURN_IF_ERROR(CheckEvaluations(request, job->resolved().spec.train().steps()));
    const ParticipantRecord& place = job->participants[grant.assignment->ordinal];
    if (request.has_progress()) {
      job->progress.Report(request.pool(), place.ordinal, place.start_step.value_or(0),
                           request.progress());
      runtime_->watchers().Changed(job->id(), runtime_->now());
    }
    LH_RETURN_IF_ERROR(TakeEvaluations(request, *job, response));
    if (request.has_failure()) {
      JobFault fault = FromProto(request.failure());
      fault.pool = request.pool();
      runtime_->Step(
          PoolFailed{request.pool(), request.incarnation(), job->id(), std::move(fault)});
    }
    if (request.evaluations_size() > 0 || request.has_failure()) {
      LH_ASSIGN_OR_RETURN(grant, Ask(*runtime_, heartbeat));  // It may have ended the job.
    }
  }
  *response->mutable_lease() = ToProto(grant.lease);
  Assign(grant, response->mutable_assignment());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* PoolService::Heartbeat(grpc::CallbackServerContext* context,
                                                 const v1::HeartbeatRequest* request,
                                                 v1::HeartbeatResponse* response) {
  if (const absl::Status valid = CheckHeartbeat(*request); !valid.ok())
    return Answered(context, valid);
  return AnswerFromOwner(context, runtime_, [=, this] { return DoHeartbeat(*request, response); });
}

grpc::ServerUnaryReactor* PoolService::Leave(grpc::CallbackServerContext* context,
                                             const v1::LeaveRequest* request,
                                             v1::LeaveResponse* response) {
  if (const absl::Status valid = CheckPool(request->pool(), request->incarnation()); !valid.ok()) {
    return Answered(context, valid);
  }
  return AnswerFromOwner(context, runtime_, [=, this] {
    runtime_->Step(LeavePool{request->pool(), request->incarnation()});
    runtime_->parts()
        .log->With({.pool = request->pool()})
        .Info(absl::StrCat("left: ", request->reason().substr(0, kTextBytesMax)));
    return absl::OkStatus();
  });
}

void PoolService::DoList(v1::ListPoolsResponse* response) {
  const absl::Time now = runtime_->now();
  for (const PoolView& view : runtime_->pools()) {
    v1::Pool* pool = response->add_pools();
    if (const auto found = descriptions_.find(view.pool); found != descriptions_.end())
      *pool = found->second;
    pool->set_name(view.pool);
    pool->set_state(StateOf(view, now));
    pool->set_ranks(view.ranks);
    *pool->mutable_lease_left() = ToProto(std::max(view.lease_end - now, absl::ZeroDuration()));
    if (!view.assignment.has_value()) continue;
    pool->set_job_id(view.assignment->job);
    const std::shared_ptr<LiveJob> job = runtime_->jobs().Find(view.assignment->job);
    if (!job) continue;
    const auto& pools = job->progress.pools();
    if (const auto found = pools.find(view.pool); found != pools.end()) {
      *pool->mutable_progress() = found->second.Total();
      pool->mutable_progress()->set_live(view.lease_end > now);
    }
  }
}

grpc::ServerUnaryReactor* PoolService::ListPools(grpc::CallbackServerContext* context,
                                                 const v1::ListPoolsRequest* request,
                                                 v1::ListPoolsResponse* response) {
  return AnswerFromOwner(context, runtime_, [=, this] {
    DoList(response);
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
