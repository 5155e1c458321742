#include "coordinator/service/sync_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/names.h"
#include "coordinator/service/pull_source.h"
#include "coordinator/service/push_intake.h"
#include "coordinator/service/refusal.h"

namespace longhaul::coordinator {
namespace {

absl::Status CheckRequest(const v1::WatchPlanRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(request.pool(), request.incarnation()));
  if (request.ranks() < 1 || request.ranks() > kRanksMax) {
    return BadRequestError(
        {{"ranks", absl::StrCat(request.ranks(), " is not within 1 to ", kRanksMax)}});
  }
  if (request.rank() < 0 || request.rank() >= request.ranks()) {
    return BadRequestError(
        {{"rank", absl::StrCat(request.rank(), " is not within the pool's ", request.ranks())}});
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::PlanEvent>* SyncService::WatchPlan(
    grpc::CallbackServerContext* context, const v1::WatchPlanRequest* request) {
  std::shared_ptr<PlanStream> stream = PlanStream::Open(kPlanEventsMax);
  if (const absl::Status valid = CheckRequest(*request); !valid.ok()) {
    stream->End(valid);
    return stream.get();
  }
  const PlanStreams::Rank rank{request->job_id(), request->pool(), request->incarnation(),
                               request->rank()};
  const bool posted = runtime_->Post([runtime = runtime_, stream, rank] {
    // The plan goes out, and the stream is known, before the actions that follow the admission.
    runtime->Step(RankReady{rank.job, rank.pool, rank.incarnation, rank.rank},
                  [&](const Answer& answer) {
                    if (const Refuse* refusal = std::get_if<Refuse>(&answer))
                      stream->End(ToStatus(*refusal));
                    if (const AdmitRank* admitted = std::get_if<AdmitRank>(&answer)) {
                      stream->Send(runtime->PlanFor(*admitted));
                      runtime->plan_streams().Add(rank, stream);
                    }
                  });
  });
  if (!posted) stream->End(Runtime::Overloaded());
  return stream.get();
}

grpc::ServerUnaryReactor* SyncService::GetContribution(grpc::CallbackServerContext* context,
                                                       const v1::GetContributionRequest* request,
                                                       v1::GetContributionResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool accepted = runtime_->RunBeside([runtime = runtime_, reactor, request, response] {
    absl::StatusOr<v1::GetContributionResponse> found = FindContribution(*runtime, *request);
    if (found.ok()) *response = *std::move(found);
    reactor->Finish(ToGrpcStatus(found.status()));
  });
  if (!accepted) reactor->Finish(ToGrpcStatus(Runtime::Overloaded()));
  return reactor;
}

grpc::ServerReadReactor<grpc::ByteBuffer>* SyncService::PushFragment(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  return ReceivePush(context, response, MakePushHandler(runtime_), runtime_->bulk());
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* SyncService::PullFragment(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return SendPull(context, request, MakePullHandler(runtime_), runtime_->bulk());
}

}  // namespace longhaul::coordinator
