// A Rendezvous of some ranks of an existing communicator. With it the communicators of the levels
// below a pool (a node, a pair of devices) are made without another server.
#pragma once

#include <string>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

// Serves one exchange. It is a collective of the parent: every rank of `parent` makes it at the
// same time, each with the members of its own group. Called from the thread that uses the parent.
class SubgroupRendezvous : public Rendezvous {
 public:
  // `members` are ranks of the parent; their order numbers the ranks of the group. The parent
  // outlives this object.
  SubgroupRendezvous(Communicator& parent, std::vector<int> members);

  // `rank` is the rank in the group. Also the errors of Communicator::AllGather.
  absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                    absl::Duration timeout) override;

 private:
  Communicator& parent_;
  const std::vector<int> members_;
};

}  // namespace longhaul
