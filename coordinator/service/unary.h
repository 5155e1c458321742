// How unary calls work here. A call is checked on gRPC's thread and decided on the owner thread,
// which also answers it: at once, or when the decision is durable. Heartbeats and joins, which are
// most calls, are answered by another thread (ServiceContext::answers), and so is what only reads
// files. A call for which there is no room is refused (Overloaded), and so is
// a user's call for which the owner thread does not come (UNAVAILABLE, with what stands still).
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

// Ends a call whose turn does not come, since the owner thread stands still.
inline OwnerThread::Refusal RefusalOf(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status) { reactor->Finish(ToGrpcStatus(status)); };
}

// Gives `work(reactor)`, which ends the call now or later, to another thread: post(task, reactor)
// -> whether that has room.
template <typename Post, typename Work>
grpc::ServerUnaryReactor* AnswerElsewhere(grpc::CallbackServerContext* context, Post post,
                                          Work work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (!post([reactor, work = std::move(work)]() mutable { work(reactor); }, reactor))
    reactor->Finish(ToGrpcStatus(Overloaded()));
  return reactor;
}

// The work that ends a call with `make() -> absl::Status`, which may fill the response.
template <typename Make>
auto FinishWith(Make make) {
  return [make = std::move(make)](grpc::ServerUnaryReactor* reactor) mutable {
    reactor->Finish(ToGrpcStatus(make()));
  };
}

template <typename Make>
grpc::ServerUnaryReactor* AnswerFrom(grpc::CallbackServerContext* context, TaskRunner& runner,
                                     Make make) {
  return AnswerElsewhere(
      context, [&](auto task, auto*) { return runner.Submit(std::move(task)); },
      FinishWith(std::move(make)));
}

// Waits for the owner thread for as long as it takes: for calls of pools, whose leases hold from
// the time of the call's arrival, also when a disk stood still meanwhile.
template <typename Work>
grpc::ServerUnaryReactor* OnOwner(grpc::CallbackServerContext* context,
                                  const ServiceContext& service, Work work) {
  return AnswerElsewhere(
      context, [&](auto task, auto*) { return service.owner->Post(std::move(task)); },
      std::move(work));
}

// For calls of users, who hear what stands still (OwnerThread::RefuseWaiting). Then nothing was
// changed.
template <typename Work>
grpc::ServerUnaryReactor* OnOwnerInTime(grpc::CallbackServerContext* context,
                                        const ServiceContext& service, Work work) {
  return AnswerElsewhere(
      context,
      [&](auto task, auto* reactor) {
        return service.owner->Post(std::move(task), RefusalOf(reactor));
      },
      std::move(work));
}

// As OnOwnerInTime, for calls that only read.
template <typename Decide>
grpc::ServerUnaryReactor* AnswerFromOwner(grpc::CallbackServerContext* context,
                                          const ServiceContext& service, Decide decide) {
  return AnswerElsewhere(
      context,
      [&](auto task, auto* reactor) {
        return service.owner->PostRead(std::move(task), RefusalOf(reactor));
      },
      FinishWith(std::move(decide)));
}

// Does the command, and ends the call when the decision is durable: with the answer, if it is a
// refusal, else with respond(answer) -> absl::Status. Owner thread.
template <typename Respond>
void DoAndFinish(grpc::ServerUnaryReactor* reactor, ControlPlane& control, const Command& command,
                 Respond respond) {
  control.Do(command, [reactor,
                       respond = std::move(respond)](const std::optional<Answer>& answer) mutable {
    const Refuse* refusal = RefusalIn(answer);
    reactor->Finish(ToGrpcStatus(refusal != nullptr ? ToStatus(*refusal) : respond(answer)));
  });
}
template <typename Respond>
grpc::ServerUnaryReactor* AnswerCommand(grpc::CallbackServerContext* context,
                                        const ServiceContext& service, Command command,
                                        Respond respond) {
  return OnOwner(context, service,
                 [control = service.control, command = std::move(command),
                  respond = std::move(respond)](grpc::ServerUnaryReactor* reactor) mutable {
                   DoAndFinish(reactor, *control, command, std::move(respond));
                 });
}

}  // namespace longhaul::coordinator
