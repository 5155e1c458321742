#include "coordinator/service/sync_service.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/model_kinds.h"
#include "common/rpc/status_details.h"
#include "common/wire/data_summary.h"
#include "coordinator/service/names.h"
#include "coordinator/service/plan_message.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {
namespace {

// As of a mixture.
constexpr int kSourcesMax = 64;

absl::Status CheckRequest(const PoolCaller& caller, const v1::WatchPlanRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(caller, request.pool(), request.incarnation()));
  LH_RETURN_IF_ERROR(CheckRanks(request.ranks()));
  if (request.rank() < 0 || request.rank() >= request.ranks()) {
    return BadRequestError(
        {{"rank", absl::StrCat(request.rank(), " is not within the pool's ", request.ranks())}});
  }
  const v1::DataSummary& data = request.data();
  if (data.tokens_size() > kSourcesMax || data.samples_size() > kSourcesMax)
    return BadRequestError({{"data", absl::StrCat("has more than ", kSourcesMax, " sources")}});
  if (data.warnings_size() > kDataWarningsMax) {
    return BadRequestError(
        {{"data.warnings", absl::StrCat("has more than ", kDataWarningsMax, " warnings")}});
  }
  if (data.features().size() > kDataFeaturesBytesMax) {
    return BadRequestError(
        {{"data.features", absl::StrCat("has more than ", kDataFeaturesBytesMax, " bytes")}});
  }
  for (const v1::DataWarning& warning : data.warnings()) {
    if (warning.kind().empty() || warning.kind().size() > kDataWarningKindBytesMax ||
        warning.message().size() > kDataWarningBytesMax)
      return BadRequestError({{"data.warnings", "has a kind or message of an impossible size"}});
  }
  return absl::OkStatus();
}

// Keeps the data with which the pool began, and tells what is suspicious of it. That of another
// start is told: its ranks begin only if the spec allows it.
void TakeData(const ServiceContext& service, LiveJob& job, const std::string& pool,
              const v1::DataSummary& data) {
  const auto tell = [&](v1::JobEvent event) {
    event.set_pool(pool);
    service.control->log()
        .With({.job = job.name(), .pool = pool, .job_id = job.id()})
        .Warning(event.message());
    job.events.Add(std::move(event), service.control->now());
    service.watchers->Changed(job.id(), service.control->now());
  };
  const std::vector<v1::DataWarning> warnings = job.progress.NewWarnings(pool, data);
  const std::string change = job.progress.BeginWithData(
      pool, data, job.resolved.has_value() ? UnitNameOf(job.resolved->spec.model()) : "tokens");
  if (!change.empty()) {
    tell(MakeEvent(v1::POOL_DATA_CHANGED, v1::WARNING,
                   absl::StrCat("restarted with other data: ", change)));
  }
  for (const v1::DataWarning& warning : warnings) {
    v1::JobEvent event = MakeEvent(v1::POOL_DATA_WARNING, v1::WARNING, warning.message());
    event.set_code(warning.kind());
    tell(std::move(event));
  }
}

// Answers a pool's call, in the pool's turn, with what `find`, a method of Fragments, reads in the
// folders of jobs.
template <typename Request, typename Response, typename Find>
grpc::ServerUnaryReactor* AnswerPool(const ServiceContext& service,
                                     grpc::CallbackServerContext* context, const Request* request,
                                     Response* response, Find find) {
  const absl::Status valid =
      CheckPool(service.CallerOf(*context), request->pool(), request->incarnation());
  if (!valid.ok()) return Answered(context, valid);
  return AnswerElsewhere(
      context,
      [&](auto task, auto*) {
        return service.bulk.executor->Submit(request->pool(), std::move(task));
      },
      FinishWith([&service, request, response, find] {
        absl::StatusOr<Response> found = std::invoke(find, service.control->fragments(), *request);
        if (found.ok()) *response = *std::move(found);
        return found.status();
      }));
}

}  // namespace

SyncService::SyncService(const ServiceContext& service) : service_(service) {}

SyncService::~SyncService() = default;

grpc::ServerWriteReactor<v1::PlanEvent>* SyncService::WatchPlan(
    grpc::CallbackServerContext* context, const v1::WatchPlanRequest* request) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  std::shared_ptr<PlanStream> stream = PlanStream::Open(kPlanEventsMax);
  const absl::Status valid = CheckRequest(service_.CallerOf(*context), *request);
  if (!valid.ok()) {
    stream->End(valid);
    return stream.get();
  }
  const PlanStreams::Rank rank{request->job_id(), request->pool(), request->incarnation(),
                               request->rank()};
  const bool posted = service_.owner->Post([service = service_, stream, rank,
                                            data = request->data()] {
    // The stream is registered and the plan is sent before the notices that follow the
    // admission.
    service.control->Do(RankReady{rank.job, rank.pool, rank.incarnation, rank.rank},
                        [service, stream, rank, data](const std::optional<Answer>& answer) {
                          const auto* admitted = std::get_if<AdmitRank>(&*answer);
                          if (admitted == nullptr)
                            return stream->End(ToStatus(std::get<Refuse>(*answer)));
                          const std::shared_ptr<LiveJob> job = service.control->Find(rank.job);
                          const std::optional<JobView> view = service.control->View(rank.job);
                          // The job ended while its admission waited for the disk.
                          if (!view.has_value()) {
                            return stream->End(WithErrorInfo(
                                absl::FailedPreconditionError(absl::StrCat(
                                    "job ", job == nullptr ? rank.job : job->name(), " has ended")),
                                {"JOB_ENDED", {}}));
                          }
                          TakeData(service, *job, rank.pool, data);
                          stream->Send(MakePlan(*job, *view, *admitted));
                          service.plan_streams->Add(rank, stream);
                        });
  });
  if (!posted) stream->End(Overloaded());
  return stream.get();
}

grpc::ServerUnaryReactor* SyncService::GetContribution(grpc::CallbackServerContext* context,
                                                       const v1::GetContributionRequest* request,
                                                       v1::GetContributionResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerPool(service_, context, request, response, &Fragments::FindContribution);
}

grpc::ServerUnaryReactor* SyncService::GetTokenizer(grpc::CallbackServerContext* context,
                                                    const v1::GetTokenizerRequest* request,
                                                    v1::GetTokenizerResponse* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  return AnswerPool(service_, context, request, response, &Fragments::FindTokenizer);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* SyncService::PushFragment(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  PushHandler handler = service_.control->fragments().MakePushHandler();
  handler.on_header = [begin = std::move(handler.on_header), caller = service_.CallerOf(*context)](
                          const v1::PushHeader& header) -> absl::StatusOr<StreamLimits> {
    LH_RETURN_IF_ERROR(CheckPool(caller, header.pool(), header.incarnation()));
    return begin(header);
  };
  return ReceivePush(context, response, std::move(handler), service_.bulk);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* SyncService::PullFragment(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  LH_RETURN_IF_REFUSED(service_.door, context);
  PullHandler handler = service_.control->fragments().MakePullHandler();
  handler.on_admit = [caller = service_.CallerOf(*context)](const v1::PullRequest& request) {
    return CheckPool(caller, request.pool(), request.incarnation());
  };
  return SendPull(context, request, std::move(handler), service_.bulk);
}

}  // namespace longhaul::coordinator
