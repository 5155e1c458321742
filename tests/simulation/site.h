// What connects the machines of one simulated pool: the addresses of the rendezvous that its agents
// serve, and of the sockets of its ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/simulation/communicator.h"
#include "tests/simulation/rendezvous_node.h"
#include "tests/simulation/world.h"

namespace longhaul::simulation {

class Site {
 public:
  Site(World* world, std::string pool) : world_(world), pool_(std::move(pool)) {}

  // The address of a rendezvous on that machine, valid until EndServing. It is never used again.
  std::string Serve(int machine, RendezvousNode* rendezvous);
  void EndServing(const std::string& address) { served_.erase(address); }
  // Null: no rendezvous has this address.
  RendezvousNode* At(const std::string& address) const;

  // Gives a new rank's process on that machine an address; ends it, see Communicator::Leave.
  std::string Listen(int machine);
  void Close(const std::string& blob, bool silently);
  // The communicator of the ranks with these addresses. All of them get the same.
  std::shared_ptr<Communicator> Connect(const std::vector<std::string>& blobs);

 private:
  struct Member {
    std::weak_ptr<Communicator> communicator;
    int rank = 0;
  };

  World* const world_;
  const std::string pool_;
  int64_t addresses_ = 0;
  std::map<std::string, RendezvousNode*> served_;
  // By the address of a process that has not ended: the communicators that it is a member of.
  std::map<std::string, std::vector<Member>> listening_;
  std::map<std::vector<std::string>, std::weak_ptr<Communicator>> communicators_;
};

}  // namespace longhaul::simulation
