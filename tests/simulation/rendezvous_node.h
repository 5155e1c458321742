// The rendezvous that a simulated agent serves for the ranks of its pool. The product's
// RendezvousRound decides. Calls go over the simulated network, in place of the product's service
// (worker/rendezvous/rendezvous_service.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/simulation/process.h"
#include "tests/simulation/world.h"
#include "worker/rendezvous/rendezvous_round.h"

namespace longhaul::simulation {

class RendezvousNode {
 public:
  using Blobs = absl::StatusOr<std::vector<std::string>>;
  using Answer = std::function<void(const Blobs&)>;

  // It runs in the agent's process.
  RendezvousNode(World* world, std::shared_ptr<Process> process, int machine, std::string token)
      : world_(world), process_(std::move(process)), machine_(machine), token_(std::move(token)) {}
  // Ends every call.
  ~RendezvousNode();

  void StartGeneration(uint64_t generation, int size);
  // A call from `machine`. `answer` runs there once, with UNAVAILABLE if the connection ends.
  // Returns the connection; the caller uses it to end the call. Null: the rendezvous cannot be
  // reached.
  sim::ConnectionPtr Exchange(int machine, const std::string& token,
                              const RendezvousRound::Request& request, Answer answer);

 private:
  struct Call {
    int from = 0;  // The caller's place on the network.
    sim::ConnectionPtr connection;
    Answer answer;
  };
  using Calls = std::map<RendezvousRound::Caller, std::shared_ptr<Call>>;

  void Join(RendezvousRound::Caller caller, const std::shared_ptr<Call>& call,
            const std::string& token, const RendezvousRound::Request& request);
  void End(const std::shared_ptr<Call>& call, const Blobs& blobs);
  void Gone(RendezvousRound::Caller caller);

  World* const world_;
  const std::shared_ptr<Process> process_;
  const int machine_;
  const std::string token_;
  std::optional<RendezvousRound> round_;
  RendezvousRound::Caller next_caller_ = 0;
  // All calls, and the calls that wait in the exchange of round_.
  Calls calls_, waiting_;
};

}  // namespace longhaul::simulation
