// How unary calls work here. A call is checked on gRPC's thread and decided on the owner thread,
// which also answers it: at once, or when the decision is durable.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/service/service_context.h"
#include "grpcpp/support/server_callback.h"

namespace longhaul::coordinator {

inline grpc::ServerUnaryReactor* Answered(grpc::CallbackServerContext* context,
                                          const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

// Runs `decide() -> absl::Status` on the owner thread, for calls that only read; it may fill the
// response.
template <typename Decide>
grpc::ServerUnaryReactor* AnswerFromOwner(grpc::CallbackServerContext* context,
                                          const ServiceContext& service, Decide decide) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = service.owner->PostRead(
      [reactor, decide = std::move(decide)]() mutable { reactor->Finish(ToGrpcStatus(decide())); });
  if (!posted) reactor->Finish(ToGrpcStatus(Overloaded()));
  return reactor;
}

// Steps the core on the owner thread. If the answer is no refusal, respond(answer) -> absl::Status
// is called there too, when the decision is durable.
template <typename Respond>
grpc::ServerUnaryReactor* AnswerStep(grpc::CallbackServerContext* context,
                                     const ServiceContext& service, Event event, Respond respond) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted =
      service.owner->Post([reactor, performer = service.performer, event = std::move(event),
                           respond = std::move(respond)]() mutable {
        performer->Step(event, [reactor, respond = std::move(respond)](
                                   const std::optional<Answer>& answer) mutable {
          const Refuse* refusal = answer.has_value() ? std::get_if<Refuse>(&*answer) : nullptr;
          reactor->Finish(ToGrpcStatus(refusal != nullptr ? ToStatus(*refusal) : respond(answer)));
        });
      });
  if (!posted) reactor->Finish(ToGrpcStatus(Overloaded()));
  return reactor;
}

}  // namespace longhaul::coordinator
