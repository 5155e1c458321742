// The shape of a unary call here: checked on gRPC's thread, decided on the owner thread, answered
// from there.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/service/runtime.h"
#include "grpcpp/support/server_callback.h"

namespace longhaul::coordinator {

inline grpc::ServerUnaryReactor* Answered(grpc::CallbackServerContext* context,
                                          const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

// Runs `decide() -> absl::Status` on the owner thread; it may fill the response.
template <typename Decide>
grpc::ServerUnaryReactor* AnswerFromOwner(grpc::CallbackServerContext* context, Runtime* runtime,
                                          Decide decide) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = runtime->Post(
      [reactor, decide = std::move(decide)]() mutable { reactor->Finish(ToGrpcStatus(decide())); });
  if (!posted) reactor->Finish(ToGrpcStatus(Runtime::Overloaded()));
  return reactor;
}

}  // namespace longhaul::coordinator
