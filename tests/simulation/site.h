// What joins the machines of one simulated pool: the rendezvous that its agents serve, by address,
// and the sockets on which its ranks listen for each other.
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

  // The address of a rendezvous on that machine, until EndServing; never used again.
  std::string Serve(int machine, RendezvousNode* rendezvous);
  void EndServing(const std::string& address) { served_.erase(address); }
  // Null: nobody is there.
  RendezvousNode* At(const std::string& address) const;

  // The address of a new rank's process on that machine, and its end, as Communicator::Leave.
  std::string Listen(int machine);
  void Close(const std::string& blob, bool silently);
  // The communicator of the ranks that listen at these addresses: one for all of them.
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
  // By address of a living process: where it is a member.
  std::map<std::string, std::vector<Member>> listening_;
  std::map<std::vector<std::string>, std::weak_ptr<Communicator>> communicators_;
};

}  // namespace longhaul::simulation
