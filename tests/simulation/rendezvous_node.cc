#include "tests/simulation/rendezvous_node.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul::simulation {
namespace {

constexpr int64_t kCallBytes = 100;

}  // namespace

RendezvousNode::~RendezvousNode() {
  const Calls calls = std::exchange(calls_, {});
  for (const auto& [caller, call] : calls) world_->network.Break(call->connection);
}

void RendezvousNode::StartGeneration(uint64_t generation, int size) {
  round_.emplace(generation, size);
  for (const auto& [caller, call] : std::exchange(waiting_, {})) {
    End(call,
        absl::AbortedError(absl::StrCat("rendezvous: generation ", generation, " has begun")));
  }
}

sim::ConnectionPtr RendezvousNode::Exchange(int machine, const std::string& token,
                                            const RendezvousRound::Request& request,
                                            Answer answer) {
  const RendezvousRound::Caller caller = next_caller_++;
  auto call = std::make_shared<Call>(Call{.from = machine, .answer = std::move(answer)});
  const auto broken = [call] {
    if (Answer answer = std::exchange(call->answer, nullptr))
      answer(absl::UnavailableError("rendezvous: the connection ended"));
  };
  call->connection = world_->network.Connect(
      machine, machine_, broken,
      [this, process = process_, caller] { process->Run([this, caller] { Gone(caller); }); });
  if (call->connection == nullptr) return nullptr;
  calls_.emplace(caller, call);
  world_->network.Send(call->connection, machine, kCallBytes,
                       [this, process = process_, caller, call, token, request] {
                         process->Run([=, this] { Join(caller, call, token, request); });
                       });
  return call->connection;
}

void RendezvousNode::Join(RendezvousRound::Caller caller, const std::shared_ptr<Call>& call,
                          const std::string& token, const RendezvousRound::Request& request) {
  if (token != token_) return End(call, absl::UnauthenticatedError("rendezvous: wrong token"));
  if (!round_.has_value()) {
    return End(call, absl::NotFoundError(absl::StrCat("rendezvous: generation ", request.generation,
                                                      " has not begun")));
  }
  if (const absl::Status joined = round_->Join(caller, request); !joined.ok())
    return End(call, joined);
  waiting_.emplace(caller, call);
  if (!round_->complete()) return;
  const std::vector<std::string> blobs = round_->Blobs();
  for (const auto& [each, member] : std::exchange(waiting_, {})) End(member, blobs);
}

void RendezvousNode::End(const std::shared_ptr<Call>& call, const Blobs& blobs) {
  world_->network.Send(call->connection, machine_, kCallBytes, [call, blobs] {
    if (Answer answer = std::exchange(call->answer, nullptr)) answer(blobs);
  });
}

void RendezvousNode::Gone(RendezvousRound::Caller caller) {
  calls_.erase(caller);
  if (waiting_.erase(caller) > 0) round_->Leave(caller);
}

}  // namespace longhaul::simulation
