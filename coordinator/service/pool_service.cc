#include "coordinator/service/pool_service.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/config/capabilities.h"
#include "common/config/model_kinds.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/evaluation_reports.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/message_size.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/names.h"
#include "coordinator/service/pool_messages.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {
namespace {

// How many pools' descriptions are kept.
constexpr size_t kDescriptionsMax = 10000;
// A page token names the last pool of the page before.
constexpr absl::string_view kPageTokenPrefix = "after-";
// How many views of pools are made at one time for a page, which seldom has room for more.
constexpr size_t kViewsAtOnce = 256;
// Of the jobs for which one pool is set aside.
constexpr size_t kPoolSetAsideBytesMax = 64 << 10;

// A pool asks when it joins, and then every ten minutes. With each of its agents' starts it may ask
// earlier.
constexpr double kAsksAboutKeptPerMinute = 1, kAsksAboutKeptAtOnce = 4;

// A larger spec is copied into an answer on another thread.
constexpr size_t kSpecCopiedHere = 16 << 10;

// The log has a line when a pool joins, and not more often than so.
constexpr absl::Duration kJoinToldEach = absl::Seconds(1);

// What is the coordinator's alone. An earlier worker would refuse the spec for a field that it does
// not know.
void ClearForPools(v1::JobSpec& spec) { spec.clear_guard(); }

}  // namespace

PoolService::PoolService(const ServiceContext& service, MetricRegistry& registry)
    : service_(service),
      asks_about_kept_(kAsksAboutKeptPerMinute / 60, kAsksAboutKeptAtOnce),
      heartbeats_(registry.Counter("longhaul_coordinator_heartbeats_total",
                                   "Heartbeats that extended a lease.")),
      evaluations_refused_(
          registry.Counter("longhaul_coordinator_evaluations_refused_total",
                           "Refused evaluation reports: their version is not committed, or another "
                           "pool was asked to evaluate it.")) {
  evaluations_refused_.With();  // Shown as 0 before the first.
}

PoolService::~PoolService() = default;

std::shared_ptr<const v1::JobSpec> PoolService::Assign(const GrantLease& grant,
                                                       const std::string& has_spec_of,
                                                       v1::Assignment* assignment) const {
  if (!grant.assignment.has_value()) return nullptr;
  const std::shared_ptr<LiveJob> job = service_.control->Find(grant.assignment->job);
  if (!job || !job->resolved.has_value()) return nullptr;
  assignment->set_job_id(job->id());
  assignment->set_ordinal(grant.assignment->ordinal);
  assignment->set_stop(grant.assignment->stop);
  *assignment->mutable_data() = job->progress.DataOf(grant.pool);
  if (job->id() == has_spec_of) return nullptr;
  if (job->record.spec.size() > kSpecCopiedHere) return {job, &job->resolved->spec};
  *assignment->mutable_spec() = job->resolved->spec;
  ClearForPools(*assignment->mutable_spec());
  return nullptr;
}

bool PoolService::Remember(const v1::JoinRequest& request) {
  if (descriptions_.size() >= kDescriptionsMax) {
    std::set<std::string> known;
    for (const PoolView& view : service_.control->Pools()) known.insert(view.pool);
    std::erase_if(descriptions_, [&](const auto& item) { return !known.contains(item.first); });
  }
  Description& description = descriptions_[request.pool()];
  const absl::Time now = SteadyTime();
  const bool again =
      description.incarnation == request.incarnation() && now - description.told < kJoinToldEach;
  // An agent that joins again and again says the same each time.
  if (again) return false;
  description.incarnation = request.incarnation();
  description.told = now;
  v1::Pool& pool = description.pool;
  pool.set_device(request.device());
  pool.set_host(request.host());
  pool.set_version(request.version());
  *pool.mutable_capabilities() = request.capabilities();
  pool.clear_figures();
  if (request.has_figures()) *pool.mutable_figures() = request.figures();
  return true;
}

void PoolService::Reply(grpc::ServerUnaryReactor* reactor, const absl::Status& status) {
  const auto finish = [reactor, status] { reactor->Finish(ToGrpcStatus(status)); };
  if (!service_.answers->Submit(finish)) finish();
}

template <typename Request, typename Response>
void PoolService::Finish(grpc::ServerUnaryReactor* reactor, const GrantLease& grant,
                         std::shared_ptr<const v1::JobSpec> spec, const Request& request,
                         Response* response) {
  // Each node has its own jobs to ask about.
  const std::string who =
      absl::StrCat(request.pool(), " ", grant.node.has_value() ? grant.node->node : 0);
  const bool asks = !request.kept_jobs().empty() &&
                    asks_about_kept_.Take(who, SteadyTime()) == absl::ZeroDuration();
  if (!asks && spec == nullptr) return Reply(reactor, absl::OkStatus());
  // Request and response are there until the call ends.
  const bool posted = service_.reader->Submit([this, asks, spec, reactor, &request, response] {
    if (spec != nullptr) {
      *response->mutable_assignment()->mutable_spec() = *spec;
      ClearForPools(*response->mutable_assignment()->mutable_spec());
    }
    const std::vector<std::string> kept(request.kept_jobs().begin(), request.kept_jobs().end());
    // An error tells none.
    const absl::StatusOr<std::vector<std::string>> ended =
        asks ? service_.control->meta().EndedOf(kept) : std::vector<std::string>();
    if (ended.ok()) response->mutable_ended_jobs()->Add(ended->begin(), ended->end());
    reactor->Finish(grpc::Status::OK);
  });
  if (!posted) Reply(reactor, spec == nullptr ? absl::OkStatus() : Overloaded());
}

grpc::ServerUnaryReactor* PoolService::Join(grpc::CallbackServerContext* context,
                                            const v1::JoinRequest* request,
                                            v1::JoinResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  const absl::Status valid = CheckJoin(service_.CallerOf(*context), *request);
  if (!valid.ok()) return Answered(context, valid);
  return OnOwner(
      context, service_,
      [this, request, response, join = CommandOf(*request)](grpc::ServerUnaryReactor* reactor) {
        service_.control->Do(
            join, [this, request, response, reactor](const std::optional<Answer>& answer) {
              if (const Refuse* refusal = RefusalIn(answer); refusal != nullptr)
                return Reply(reactor, ToStatus(*refusal));
              const auto& grant = std::get<GrantLease>(*answer);
              Finish(reactor, grant, Joined(grant, *request, response), *request, response);
            });
      });
}

std::shared_ptr<const v1::JobSpec> PoolService::Joined(const GrantLease& grant,
                                                       const v1::JoinRequest& request,
                                                       v1::JoinResponse* response) {
  *response->mutable_lease() = ToProto(grant.lease);
  response->set_version(LONGHAUL_VERSION);
  response->add_capabilities(kPoolEvaluations);
  response->add_capabilities(kStopsWhenAsked);
  std::shared_ptr<const v1::JobSpec> spec =
      Assign(grant, /*has_spec_of=*/"", response->mutable_assignment());
  std::string as;
  if (grant.node.has_value()) {
    Fill(*grant.node, service_.control->now(), response->mutable_node());
    as = absl::StrFormat(" as node %d of %d%s%s", grant.node->node, grant.node->nodes,
                         grant.node->missing.empty() ? "" : ", waits for ", grant.node->missing);
  }
  if (!Remember(request)) return spec;
  service_.control->log()
      .With({.pool = request.pool()})
      .Info(absl::StrCat("joined with ", request.ranks(), request.ranks() == 1 ? " rank" : " ranks",
                         as));
  return spec;
}

grpc::ServerUnaryReactor* PoolService::Heartbeat(grpc::CallbackServerContext* context,
                                                 const v1::HeartbeatRequest* request,
                                                 v1::HeartbeatResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  const absl::Status valid = CheckHeartbeat(service_.CallerOf(*context), *request);
  if (!valid.ok()) return Answered(context, valid);
  // What a request carries is unpacked here, since the owner thread serves all pools.
  return OnOwner(context, service_,
                 [this, request, response, event = CommandOf(*request),
                  progress = JobProgress::Cleaned(request->progress())](
                     grpc::ServerUnaryReactor* reactor) mutable {
                   Beat(reactor, *request, response, event, std::move(progress));
                 });
}

void PoolService::Beat(grpc::ServerUnaryReactor* reactor, const v1::HeartbeatRequest& request,
                       v1::HeartbeatResponse* response, coordinator::Heartbeat& event,
                       v1::PoolProgress progress) {
  const absl::StatusOr<int64_t> taken = TakeReport(request, event, std::move(progress));
  if (!taken.ok()) return Reply(reactor, taken.status());
  std::vector<coordinator::Evaluation> evaluations = event.evaluations;
  service_.control->Do(std::move(event), [this, &request, response, reactor, taken = *taken,
                                          evaluations = std::move(evaluations)](
                                             const std::optional<Answer>& answer) {
    if (const Refuse* refusal = RefusalIn(answer); refusal != nullptr)
      return Reply(reactor, ToStatus(*refusal));
    if (const std::shared_ptr<LiveJob> job = service_.control->Find(request.job_id()))
      EvaluationsStored(*job, request.pool(), evaluations);
    const auto& grant = std::get<GrantLease>(*answer);
    *response->mutable_lease() = ToProto(grant.lease);
    std::shared_ptr<const v1::JobSpec> spec =
        Assign(grant, request.has_spec_of(), response->mutable_assignment());
    if (grant.node.has_value())
      Fill(*grant.node, service_.control->now(), response->mutable_node());
    response->set_evaluations_acknowledged(taken);
    heartbeats_.With().Increment();
    Finish(reactor, grant, std::move(spec), request, response);
  });
}

// What a heartbeat reports of the job that the pool works on. A report of a pool without a place
// there goes only to the core, which assigns it something else.
absl::StatusOr<int64_t> PoolService::TakeReport(const v1::HeartbeatRequest& request,
                                                coordinator::Heartbeat& event,
                                                v1::PoolProgress progress) {
  int64_t taken = 0;
  const int count = EvaluationsTaken(request);
  for (int i = 0; i < count; ++i) taken = std::max(taken, request.evaluations(i).step());
  const std::shared_ptr<LiveJob> job = service_.control->Find(request.job_id());
  if (!job || !job->resolved.has_value()) return taken;
  const auto within = [last = job->resolved->spec.train().steps()](int64_t step) {
    return std::clamp<int64_t>(step, 0, last);
  };
  event.inner_step = within(event.inner_step);
  const std::optional<ParticipantView> place = service_.control->Place(job->id(), request.pool());
  const std::string& incarnation =
      request.running().empty() ? request.incarnation() : request.running();
  if (!place.has_value() || place->incarnation != incarnation || !place->live) return taken;
  LH_RETURN_IF_ERROR(TakeEvaluations(*job, request, event));
  if (!job->progress.HasCommits()) taken = 0;
  if (!request.has_progress()) return taken;
  progress.set_inner_step(within(progress.inner_step()));
  job->progress.ReportCleaned(request.pool(), incarnation, place->start_step.value_or(0),
                              std::move(progress));
  job->history.Reported(job->progress.pools().at(request.pool()).Total(), service_.control->now());
  if (JobTracks* tracks = service_.control->tracks(); tracks != nullptr)
    tracks->Progressed(*job, request.pool(), service_.control->now());
  service_.watchers->Changed(job->id(), service_.control->now());
  return taken;
}

absl::Status PoolService::TakeEvaluations(const LiveJob& job, const v1::HeartbeatRequest& request,
                                          coordinator::Heartbeat& event) {
  LH_RETURN_IF_ERROR(CheckEvaluations(request, job.resolved->spec.train().steps()));
  absl::StatusOr<EvaluationReports> reports =
      coordinator::TakeEvaluations(job, request.pool(), std::move(event.evaluations));
  if (!reports.ok()) evaluations_refused_.With().Increment();
  LH_RETURN_IF_ERROR(reports.status());
  evaluations_refused_.With().Increment(reports->refused);
  event.evaluations = std::move(reports->taken);
  for (const coordinator::Evaluation& e : event.evaluations) {
    if (std::isfinite(e.loss)) continue;
    service_.control->log()
        .With({.job = job.name(), .pool = request.pool(), .job_id = job.id()})
        .Warning(absl::StrCat("evaluation at step ", e.step, ": the loss is not finite"));
    break;
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* PoolService::Leave(grpc::CallbackServerContext* context,
                                             const v1::LeaveRequest* request,
                                             v1::LeaveResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  const absl::Status valid =
      CheckPool(service_.CallerOf(*context), request->pool(), request->incarnation());
  if (!valid.ok()) return Answered(context, valid);
  return AnswerCommand(
      context, service_, CommandOf(*request), [this, request](const std::optional<Answer>&) {
        service_.control->log()
            .With({.pool = request->pool()})
            .Info(absl::StrCat("left: ", request->reason().substr(0, kPoolTextBytesMax)));
        return absl::OkStatus();
      });
}

v1::Pool PoolService::Describe(const PoolView& view, absl::Time now) const {
  v1::Pool pool;
  if (const auto found = descriptions_.find(view.pool); found != descriptions_.end())
    pool = found->second.pool;
  pool.set_name(view.pool);
  pool.set_state(static_cast<v1::PoolState>(view.state));
  pool.set_ranks(view.ranks);
  for (const NodeView& node : view.nodes) {
    v1::Node* message = pool.add_nodes();
    message->set_node(node.node);
    message->set_host(node.machine);
    message->set_here(node.here);
    message->set_ranks(node.ranks);
    message->set_address(node.host);
  }
  if (view.missing.has_value()) pool.set_waiting_for(InWords(*view.missing, now));
  *pool.mutable_lease_left() = ToProto(std::max(view.lease_end - now, absl::ZeroDuration()));
  for (const SetAsideView& set_aside : view.set_aside)
    *pool.add_set_aside() = ToProto(set_aside, now);
  pool.set_set_aside_left_out(KeepWithin(kPoolSetAsideBytesMax, pool.mutable_set_aside()));
  if (!view.assignment.has_value()) return pool;
  pool.set_job_id(view.assignment->job);
  const std::shared_ptr<LiveJob> job = service_.control->Find(view.assignment->job);
  if (!job) return pool;
  pool.set_job(job->name());
  if (job->resolved.has_value()) pool.set_unit_name(UnitNameOf(job->resolved->spec.model()));
  const auto& pools = job->progress.pools();
  if (const auto found = pools.find(view.pool); found != pools.end()) {
    *pool.mutable_progress() = found->second.Total();
    pool.mutable_progress()->set_live(view.lease_end > now);
  }
  return pool;
}

void PoolService::List(const std::string& after, size_t bytes_max,
                       v1::ListPoolsResponse* response) const {
  const absl::Time now = service_.control->now();
  size_t bytes = 0;
  std::string last = after;
  while (true) {
    const std::vector<PoolView> views = service_.control->Pools(last, kViewsAtOnce);
    for (const PoolView& view : views) {
      v1::Pool pool = Describe(view, now);
      bytes += pool.ByteSizeLong();
      if (bytes > bytes_max && response->pools_size() > 0) {
        response->set_next_page_token(absl::StrCat(kPageTokenPrefix, last));
        return;
      }
      *response->add_pools() = std::move(pool);
      last = view.pool;
    }
    if (views.size() < kViewsAtOnce) return;
  }
}

grpc::ServerUnaryReactor* PoolService::ListPools(grpc::CallbackServerContext* context,
                                                 const v1::ListPoolsRequest* request,
                                                 v1::ListPoolsResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  absl::string_view after = request->page_token();
  const bool ours = absl::ConsumePrefix(&after, kPageTokenPrefix) && IsName(after);
  if (!ours && !request->page_token().empty())
    return Answered(context, BadRequestError({{"page_token", "was not returned by ListPools"}}));
  return AnswerFromOwner(context, service_, [this, response, after = std::string(after)] {
    List(after, kPageBytesMax, response);
    return absl::OkStatus();
  });
}

}  // namespace longhaul::coordinator
